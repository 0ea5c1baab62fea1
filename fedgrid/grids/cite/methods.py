"""A methods paragraph, in LaTeX: what runs are, with every number that is needed to repeat them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from fedgrid.algorithms.registry import title
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import kind_of
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.models.registry import MODELS, build
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS
from fedgrid.engine.runtime.data.datasets import find, is_here
from fedgrid.engine.runtime.integrity.made_with import PYTHON
from fedgrid.grids.cite.references import of_algorithm, of_dataset
from fedgrid.grids.cite.wording import Words, cited, each, listed, title_of_dataset
from fedgrid.grids.presets.axis_keys import ALGORITHM, SETTING, SPLIT, axis_keys, value_of, value_text
from fedgrid.tracking.tables.formats import escaped

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
WEIGHTS = {
    "none": "equally",
    "images": "by their number of images",
    "batches": "by their number of batches",
}
ALL = "100\\%"
TOLD = frozenset(
    {
        *("dataset", "clients", "split", "seed", "algorithm", "model", "weights", "participation"),
        *("split.num_clusters", "split.test_share", "evaluation.every"),
        *("training.rounds", "training.local_epochs", "training.batch_size", "training.optimizer"),
        *("training.learning_rate", "training.momentum", "training.weight_decay"),
    }
)
"""Keys that have a place in a sentence; of the others, those that are not at their defaults are listed."""


def paragraph(runs: Sequence[RunConfig], versions: Mapping[str, str], data_dir: Path) -> str:
    """Return the paragraph.

    Args:
        runs: at least one.
        versions: of fedgrid, Python and packages, by name.
        data_dir: folder of the images, which tell the size of a data set that has no fixed one.
    """
    about = _About(runs, data_dir)
    sentences = (
        about.algorithms(versions["fedgrid"]),
        about.data(),
        about.training(),
        about.rounds(),
        about.settings(),
        about.others(),
        about.counts(),
        _software(versions),
    )
    return " ".join(filter(None, sentences))


class _About:
    """The sentences on some runs."""

    def __init__(self, runs: Sequence[RunConfig], data_dir: Path) -> None:
        self._runs = runs
        self._datasets = {name: _measured(name, data_dir) for name in {run.dataset for run in runs}}

    def algorithms(self, version: str) -> str:
        """Return what is compared, and by what."""
        names = cited(self._runs, lambda run: title(run.algorithm["name"]), of_algorithm)
        verb = "compare" if len(names) > 1 else "run"
        return f"We {verb} {listed(names)} with fedgrid {version} \\cite{{fedgrid}}."

    def data(self) -> str:
        """Return which images there are, and who holds them."""
        datasets = listed(cited(self._runs, self._dataset, of_dataset))
        clients = self._each(lambda run: f"{run.clients:,}")
        kinds = list(dict.fromkeys(run.split.kind for run in self._runs))
        facts = [*self._groups(), *self._draws()]
        return (
            f"The images of {datasets} are dealt out to {clients} client{_s(clients != '1')} by the "
            f"split{_s(len(kinds) > 1)} {listed(kinds)}{f', with {listed(facts)}' if facts else ''}; "
            f"{self._each(_test_images)}."
        )

    def _groups(self) -> list[str]:
        """Return the number of hidden groups, where they are chosen."""
        runs = [run for run in self._runs if "num_clusters" in kind_of(run.split.kind).OPTIONS]
        return [each(runs, lambda run: f"{run.split.num_clusters} hidden groups")] if runs else []

    def _draws(self) -> list[str]:
        """Return how many images a client draws by default; where this differs, the rule."""
        runs = [run for run in self._runs if run.split.kind in PUBLISHED_SPLITS and run.split.draws is None]
        pools = {(self._datasets[run.dataset], run.clients) for run in runs}
        numbers = {dataset.pool_size // clients if dataset else None for dataset, clients in pools}
        if len(numbers) == 1 and None not in numbers:
            return [f"{numbers.pop():,} draws with replacement per client"]
        return ["as many draws with replacement per client as the pool has images per client"] if runs else []

    def training(self) -> str:
        """Return what a client trains, how, and for how long."""
        batch = self._each(lambda run: str(run.training.batch_size))
        return (
            f"Clients train {self._each(self._model)} for {self._each(_rounds)} of {self._each(_epochs)} in "
            f"batches of {batch} images by {self._each(_optimizer)}."
        )

    def rounds(self) -> str:
        """Return who takes part in a round, what it counts, and when models are tested."""
        share = self._each(lambda run: f"{100 * run.participation:g}\\%")
        weights = self._each(lambda run: WEIGHTS[run.weights])
        return (
            f"In each round {'all' if share == ALL else f'{share} of the'} clients train and count {weights} "
            f"in the server's means; models are tested {self._each(_tests)}."
        )

    def settings(self) -> str:
        """Return the settings of algorithms that are not their defaults; algorithms alike together."""
        alike: dict[str, list[str]] = {}
        for name in dict.fromkeys(run.algorithm["name"] for run in self._runs):
            runs = [run for run in self._runs if run.algorithm["name"] == name]
            keys = [key for key in axis_keys(runs) if key.startswith(SETTING)]
            changed = [_setting(runs, key) for key in keys if any(_is_changed(run, key) for run in runs)]
            if changed:
                alike.setdefault(listed(changed), []).append(escaped(title(name)))
        if not alike:
            return "All settings of algorithms are fedgrid's defaults."
        found = "; ".join(f"{listed(names)} with {changed}" for changed, names in alike.items())
        return f"Settings of algorithms are fedgrid's defaults, but for {found}."

    def others(self) -> str:
        """Return the keys that have no place in a sentence and are not at their defaults."""
        keys = [key for key in axis_keys(self._runs) if key not in TOLD and not key.startswith(SETTING)]
        found = [
            f"{escaped(key)} {self._each(_value(key))}"
            for key in keys
            if any(value_of(run, key) != _default(run, key) for run in self._runs)
        ]
        return f"Further settings: {'; '.join(found)}." if found else ""

    def counts(self) -> str:
        """Return seeds and the number of runs."""
        seeds = sorted({run.seed for run in self._runs})
        is_range = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
        text = f"{seeds[0]} to {seeds[-1]}" if is_range else listed(map(str, seeds))
        runs = f"{len(self._runs):,} run{_s(len(self._runs) > 1)}"
        return f"The seed{'s are' if len(seeds) > 1 else ' is'} {text}; {runs} in all."

    def _each(self, words: Words) -> str:
        return each(self._runs, words)

    def _dataset(self, run: RunConfig) -> str:
        dataset, name = self._datasets[run.dataset], title_of_dataset(run)
        if dataset is None:
            return name
        return f"{name} (a pool of {dataset.pool_size:,} images of {dataset.num_classes} classes)"

    def _model(self, run: RunConfig) -> str:
        """Return the model, and its number of parameters if model and images are here."""
        dataset = self._datasets[run.dataset]
        if run.model not in MODELS or dataset is None:
            return escaped(run.model)
        number = _parameters(run.model, dataset.shape, dataset.num_classes)
        return f"{escaped(run.model)} with {number:,} parameters"


@cache
def _parameters(model: str, shape: tuple[int, int, int], num_classes: int) -> int:
    # torch takes a second to import.
    import torch

    with torch.device("meta"):
        return sum(weights.numel() for weights in build(model, shape, num_classes).parameters())


def _measured(name: str, data_dir: Path) -> Dataset | None:
    """Return a data set with its sizes; None if these depend on images that are not here any longer."""
    if name in DATASETS and DATASETS[name].facts is not None and not is_here(name, data_dir):
        return None
    try:
        return find(name, data_dir)
    except DataError:
        return None


def _test_images(run: RunConfig) -> str:
    if run.split.tested_on == "official":
        return "a client is tested on the official test images of its labels"
    return f"{100 * run.split.test_share:g}\\% of a client's images are its test set"


def _rounds(run: RunConfig) -> str:
    return f"{run.training.rounds} round{_s(run.training.rounds > 1)}"


def _epochs(run: RunConfig) -> str:
    return f"{run.training.local_epochs} local epoch{_s(run.training.local_epochs > 1)}"


def _s(is_plural: bool) -> str:
    return "s" if is_plural else ""


def _optimizer(run: RunConfig) -> str:
    training = run.training
    parts = [f"learning rate {training.learning_rate:g}"]
    parts += [f"momentum {training.momentum:g}"] if training.momentum else []
    parts += [f"weight decay {training.weight_decay:g}"] if training.weight_decay else []
    return f"{OPTIMIZERS[training.optimizer]} with {listed(parts)}"


def _tests(run: RunConfig) -> str:
    every = run.evaluation.every
    return "in every round" if every == 1 else f"every {every} rounds and in the last"


def _is_changed(run: RunConfig, key: str) -> bool:
    """Return whether a setting of an algorithm is another one than its entry's."""
    usual = run.model_copy(update={ALGORITHM: {"name": run.algorithm["name"]}})
    return bool(value_of(run, key) != value_of(usual, key))


def _setting(runs: Sequence[RunConfig], key: str) -> str:
    return f"{escaped(key.removeprefix(SETTING))} {each(runs, _value(key))}"


def _value(key: str) -> Words:
    """Return what says a key's value; one that is a list itself is in brackets."""

    def value(run: RunConfig) -> str:
        text = escaped(str(value_text(run, key)))
        return f"({text})" if ", " in text else text

    return value


def _default(run: RunConfig, key: str) -> Any:
    """Return what a key is if nobody sets it: of the kind of split, or of the schema."""
    section, _, name = key.partition(".")
    field = RunConfig.model_fields[section]
    defaults = kind_of(run.split.kind).DEFAULTS if section == SPLIT else {}
    if name in defaults:
        return to_jsonable_python(defaults[name])
    inner = getattr(run, section)
    found = type(inner).model_fields[name] if name else field
    return to_jsonable_python(found.get_default(call_default_factory=True))


def _software(versions: Mapping[str, str]) -> str:
    packages = [name for name in versions if name not in ("fedgrid", PYTHON)]
    return f"Software: Python {versions[PYTHON]}, {listed(f'{name} {versions[name]}' for name in packages)}."
