"""A methods paragraph, in LaTeX: what runs are, with every number that is needed to repeat them.

A run's keys are listed by their names: those of `ALWAYS`, and of the others those that are not at their
defaults.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgrid.algorithms.registry import title
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.dealing.kinds import idle_options
from fedgrid.grids.cite.references import of_algorithm, of_dataset
from fedgrid.grids.cite.sizes import num_parameters, sizes_of
from fedgrid.grids.cite.wording import Words, cite_words, join_values, join_words, title_of_dataset
from fedgrid.grids.presets.axis_keys import ALGORITHM, SETTING, axis_keys, default_of, value_of, value_text
from fedgrid.tracking.tables.formats import escape_latex

ALWAYS = (
    *("clients", "split", "split.num_clusters", "split.test_share", "participation", "weights"),
    *("training.rounds", "training.local_epochs", "training.batch_size", "training.optimizer"),
    *("training.learning_rate", "training.momentum", "training.weight_decay", "evaluation.every"),
)
"""Keys that are listed whether or not they are at their defaults."""
ELSEWHERE = ("dataset", "seed", ALGORITHM, "model")
"""Keys that have a sentence, or more to be said than their value."""


def paragraph(runs: Sequence[RunConfig], versions: Mapping[str, str], data_dir: Path) -> str:
    """Return the paragraph.

    Args:
        runs: at least one.
        versions: of fedgrid, Python and packages, by name.
        data_dir: folder of the images, which tell the size of a data set that has no fixed one.
    """
    sizes = {name: sizes_of(name, data_dir) for name in {run.dataset for run in runs}}

    def dataset(run: RunConfig) -> str:
        size = sizes[run.dataset]
        about = f" (a pool of {size[0]:,} images of {size[1]} classes)" if size else ""
        return title_of_dataset(run) + about

    def model(run: RunConfig) -> str:
        number = num_parameters(run.model, run.dataset, data_dir)
        return escape_latex(run.model) + (f" with {number:,} parameters" if number is not None else "")

    algorithms = cite_words(runs, lambda run: title(run.algorithm["name"]), of_algorithm)
    packages = [f"{name} {number}" for name, number in versions.items() if name not in ("fedgrid", "python")]
    return (
        f"We {'compare' if len(algorithms) > 1 else 'run'} {join_words(algorithms)} with fedgrid "
        f"{versions['fedgrid']} \\cite{{fedgrid}} on {join_words(cite_words(runs, dataset, of_dataset))}. "
        f"Model: {join_values(runs, model)}. {_keys(runs)} {_settings(runs)} {_counts(runs)} "
        f"Software: Python {versions['python']}, {join_words(packages)}."
    )


def _keys(runs: Sequence[RunConfig]) -> str:
    """Return the keys of runs that are no settings of algorithms, with their values."""
    others = [
        key
        for key in axis_keys(runs)
        if key not in (*ALWAYS, *ELSEWHERE)
        and not key.startswith(SETTING)
        and any(value_of(run, key) != default_of(run, key) for run in runs)
    ]
    return f"Runs have {'; '.join(_listing(runs, [*ALWAYS, *others]))}; all else is at fedgrid's defaults."


def _settings(runs: Sequence[RunConfig]) -> str:
    """Return the settings of algorithms that are not their defaults; algorithms alike together."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(run.algorithm["name"] for run in runs):
        members = [run for run in runs if run.algorithm["name"] == name]
        keys = [key for key in axis_keys(members) if key.startswith(SETTING)]
        changed = [key for key in keys if any(_is_changed(run, key) for run in members)]
        if changed:
            alike.setdefault(join_words(_listing(members, changed)), []).append(escape_latex(title(name)))
    if not alike:
        return "All settings of algorithms are fedgrid's defaults."
    changes = "; ".join(f"{join_words(names)} with {changed}" for changed, names in alike.items())
    return f"Settings of algorithms are fedgrid's defaults, but for {changes}."


def _is_changed(run: RunConfig, key: str) -> bool:
    """Return whether a setting of an algorithm is another one than its entry's."""
    usual = run.model_copy(update={ALGORITHM: {"name": run.algorithm["name"]}})
    return bool(value_of(run, key) != value_of(usual, key))


def _listing(runs: Sequence[RunConfig], keys: Sequence[str]) -> list[str]:
    """Return each key that a run has, with its values."""
    texts = []
    for key in keys:
        having = [run for run in runs if value_text(run, key) not in (None, "null") and _has_effect(run, key)]
        if having:
            texts.append(f"{escape_latex(key.removeprefix(SETTING))} {join_values(having, _value(key))}")
    return texts


def _has_effect(run: RunConfig, key: str) -> bool:
    """Return whether a key has an effect on a run: a split without hidden groups has no number of them."""
    if key == "training.local_epochs":
        return run.training.local_steps is None
    return key != "split.num_clusters" or "num_clusters" not in idle_options(run.split.kind)


def _value(key: str) -> Words:
    """Return what says a key's value; one that is a list itself is in brackets."""

    def value(run: RunConfig) -> str:
        text = escape_latex(str(value_text(run, key)))
        return f"({text})" if ", " in text else text

    return value


def _counts(runs: Sequence[RunConfig]) -> str:
    """Return seeds and the number of runs."""
    seeds = sorted({run.seed for run in runs})
    is_range = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    text = f"{seeds[0]} to {seeds[-1]}" if is_range else join_words(map(str, seeds))
    return f"Seeds: {text}; runs: {len(runs):,}."
