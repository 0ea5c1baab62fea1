"""The kinds of split: each deals the images of a pool out to clients by a rule of its own.

A new kind is a class that extends `SplitKind` in a module of `federation.partition`, and one line in `KINDS`;
options of its own are fields of `federation.partition.settings.Split`.
"""

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.dealing.own import OwnKind
from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.federation.partition import from_file, label_skew, majority, natural, ocfl, shifted
from fedgrid.engine.federation.partition.kind import Changes, SplitKind
from fedgrid.engine.federation.partition.scenarios import (
    CENTRALISED,
    IMBALANCED,
    PUBLISHED_SPLITS,
    Scenario,
    check_sizes,
)
from fedgrid.engine.federation.partition.settings import Split

KINDS: dict[str, SplitKind] = {
    **{name: ocfl.IMBALANCED if name in IMBALANCED else ocfl.BALANCED for name in PUBLISHED_SPLITS},
    "majority": majority.MajoritySplit(),
    "label-skew": label_skew.LabelSkew(),
    "dirichlet": shifted.DIRICHLET,
    "iid": shifted.IID,
    "rotated": shifted.ROTATED,
    "rolled": shifted.ROLLED,
    "flipped": shifted.FLIPPED,
    "swapped": shifted.SWAPPED,
    "dimmed": shifted.DIMMED,
    "noisy": shifted.NOISY,
    "two-levels": shifted.TWO_LEVELS,
    "continuum": shifted.CONTINUUM,
    natural.NATURAL: natural.NaturalSplit(),
    from_file.FILE: from_file.FileSplit(),
    CENTRALISED: shifted.ONE_CLIENT,
}
"""Kinds by the name that configurations use; plugins add theirs."""
ALIASES = {
    "overlapping": "overlapping-balanced",
    "nonoverlapping": "nonoverlapping-balanced",
    **{f"{name}-balanced": name for name in KINDS if name not in PUBLISHED_SPLITS},
}
"""Other names -> the name of a kind, for suggestions."""


BUILT_IN = frozenset(KINDS)
"""Names of the package's kinds; plugins add others to `KINDS`."""


def find_kind(split: str) -> SplitKind:
    """Find a kind by its name.

    Raises:
        ConfigError: no kind has that name.
    """
    if split not in KINDS:
        raise ConfigError(str(unknown_name_error("split", split, KINDS, ALIASES)), ("split", "kind"))
    return KINDS[split]


def list_own_kinds() -> list[OwnKind]:
    """List the kinds of the plugins in use."""
    return [kind for kind in KINDS.values() if isinstance(kind, OwnKind)]


def list_idle_options(split: str) -> list[str]:
    """List the fields of `Split` that have no effect on this kind, but on others.

    The list is empty for a plugin's kind that is not loaded.
    """
    if split not in KINDS:
        return []
    acting = KINDS[split].OPTIONS
    all_options = dict.fromkeys(option for kind in KINDS.values() for option in kind.OPTIONS)
    return [option for option in all_options if option not in acting]


def find_changes(split: Split, num_clients: int, num_classes: int) -> Changes | None:
    """Find what hidden groups, or clients, do to their images; None if they do nothing."""
    return find_kind(split.kind).build_changes(split, num_clients, num_classes)


def check_split(scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
    """Check that the settings of a split have an effect and fit one another; needs no images.

    Args:
        scenario: data set, kind of split and number of clients.
        facts: what is known of the data set.
        split: the settings.
        seed: the run's seed, for kinds that draw before any image is read.

    Raises:
        ConfigError: an option of another kind, or settings that do not fit; with its key.
    """
    kind = find_kind(scenario.split)
    for option in list_idle_options(scenario.split):
        given = getattr(split, option)
        # A stored configuration may name an option at its default, the general one or that of the kind:
        # neither is a mistake.
        usual = (Split.model_fields[option].get_default(), kind.DEFAULTS.get(option))
        if option not in kind.IDLE and given not in usual:
            raise no_effect_error(option, given, scenario.split)
    _check_tested_on(split)
    if split.sizes is not None:
        check_sizes(split.sizes, split.num_clusters, scenario.num_clients)
    kind.check_settings(scenario, facts, split, seed)


def no_effect_error(option: str, given: object, split: str) -> ConfigError:
    """Build the error for an option that only other kinds use."""
    owners = ", ".join(name for name, other in KINDS.items() if option in other.OPTIONS)
    return ConfigError(
        f"split.{option} = {given} has no effect with split {split}, only with: {owners}; leave it out",
        ("split", option),
    )


def _check_tested_on(split: Split) -> None:
    """Refuse settings of the clients' own test sets where clients have none."""
    if split.tested_on == "own" or split.scored_on == "validation":
        return
    for option in ("test_share", "test_leakage"):
        given = getattr(split, option)
        if given != Split.model_fields[option].get_default():
            raise ConfigError(
                f"split.{option} = {given} has no effect with split.tested_on = official, where clients "
                "train on all their images; leave one of the two out",
                ("split", option),
            )
