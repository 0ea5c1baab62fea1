"""The folder of a centralised training: records, figures, proposal, and two states until it is finished."""

import json
from collections.abc import Mapping, Sequence
from shutil import rmtree
from typing import Any

import pyarrow as pa
import yaml

from fedgrid.engine import checkpoint
from fedgrid.engine.centralised import EPOCHS, CentralisedConfig
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.data import own_images
from fedgrid.engine.epsilons import EPSILON_2_FACTOR, SETTLED, Proposal
from fedgrid.engine.format import DamagedFile
from fedgrid.engine.integrity.files import read_table
from fedgrid.engine.integrity.made_with import MADE_WITH, MadeWith, changes, parts_of, sealed
from fedgrid.engine.storage.atomic import delete_partial, disk_errors, set_aside, write_text
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.mlflow_log.mark import MARK

CENTRALISED = "centralised"
"""The folder of these folders, in a storage."""
RECORDS, PROPOSAL, CONFIG = "epochs.parquet", "proposal.yaml", "config.json"
"""The proposal is written last: if it exists, the training is finished."""
FIGURES = ("figures/update_norms.png", "figures/update_norms.svg")


class CentralisedFolder:
    """Reads and writes such a folder. The same training writes the same bytes."""

    def __init__(self, storage: Storage, config: CentralisedConfig) -> None:
        self.config = config
        self._storage = storage
        self._name = f"{CENTRALISED}/{config.name}-{config.run_id}"
        self.path = storage.root / self._name
        self._epochs = EPOCHS.empty_table()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The records, a row for each epoch."""
        rows: list[dict[str, Any]] = self._epochs.to_pylist()
        return rows

    def column(self, name: str) -> list[float]:
        """Return a column of `EPOCHS`, a value for each epoch."""
        values: list[float] = self._epochs[name].to_pylist()
        return values

    def read(self) -> bool:
        """Read the records; return whether the training is finished.

        Raises:
            RunError: if the storage cannot be read.
        """
        self._storage.pull(self._name)
        self._epochs = self._read()
        return self._epochs.num_rows == self.config.training.rounds and (self.path / PROPOSAL).exists()

    def open(self) -> RunState | None:
        """Return the newest undamaged checkpoint that the records reach, None at the start."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            delete_partial(self.path)
            text = json.dumps(self.config.model_dump(mode="json"), indent=2, sort_keys=True)
            write_text(self.path / CONFIG, text + "\n")
            self._push(CONFIG)
            if images := own_images.sealed([self.config.dataset]):
                write_text(self.path / own_images.PLACES, images)
                self._push(own_images.PLACES)
            for number in checkpoint.stored_rounds(self.path):
                run_state = checkpoint.load(self.path, number)
                if run_state is not None and number <= self._epochs.num_rows:
                    self._epochs = self._epochs.slice(0, number)
                    return run_state
        self._epochs = EPOCHS.empty_table()
        return None

    def note_made_with(self, now: MadeWith, rounds_done: int, *, accept: bool = False) -> list[str]:
        """Note what the epochs to come are made with, and return what has changed; to be called after `open`.

        Raises:
            DataError: the epochs so far were made with other images.
            ConfigError: they were made with something else that is not accepted.
        """
        path = self.path / MADE_WITH
        with disk_errors(self.path):
            try:
                before = parts_of(path) if rounds_done else ()
            except DamagedFile:
                moved = set_aside(self.path, [MADE_WITH])
                self._push(*(new for _, new in moved))
                before = ()
            parts, notes = changes(self.config.name, before, now, rounds_done, accept=accept)
            if parts != before:
                write_text(path, sealed(parts))
                self._push(MADE_WITH)
        return notes

    def forget(self) -> None:
        """Delete all files of the training."""
        with disk_errors(self.path):
            self._storage.remove(self._name)
            rmtree(self.path, ignore_errors=True)
        self._epochs = EPOCHS.empty_table()

    def save(self, run_state: RunState, row: Mapping[str, Any]) -> None:
        """Write one more epoch."""
        new = pa.Table.from_pylist([row], schema=EPOCHS)
        self._epochs = pa.concat_tables([self._epochs, new]).combine_chunks()
        with disk_errors(self.path):
            self._push(*checkpoint.save(self.path, run_state, {RECORDS: self._epochs}))
            self._drop(run_state.rounds_done - checkpoint.KEEP)

    def finish(self, proposal: Proposal) -> None:
        """Write figures and proposal, and delete the states."""
        from fedgrid.tracking import figures

        columns = {name: self._epochs[name].to_numpy() for name in EPOCHS.names}
        figure = figures.update_norms(
            columns,
            epsilon_1=proposal.epsilon_1,
            epsilon_2=proposal.epsilon_2,
            cooldown=proposal.cooldown,
        )
        with disk_errors(self.path):
            (self.path / "figures").mkdir(exist_ok=True)
            for name in FIGURES:
                figures.save(figure, self.path / name)
            write_text(self.path / PROPOSAL, proposal_text(self.config, proposal))
            self._push(RECORDS, *FIGURES, PROPOSAL)
            self._drop(self.config.training.rounds)

    def log_mark(self, text: str) -> None:
        """Note that MLflow has the training."""
        with disk_errors(self.path):
            write_text(self.path / MARK, text)
            self._push(MARK)

    def _read(self) -> pa.Table:
        """Return the records on disk; none if they are missing or damaged: then the epochs are repeated."""
        try:
            return read_table(self.path / RECORDS, EPOCHS)
        except (FileNotFoundError, DamagedFile):
            return EPOCHS.empty_table()

    def _drop(self, last: int) -> None:
        gone = checkpoint.drop(self.path, last)
        self._storage.remove(*(f"{self._name}/{name}" for name in gone))

    def _push(self, *names: str) -> None:
        self._storage.push(*(f"{self._name}/{name}" for name in names))


def proposal_text(config: CentralisedConfig, proposal: Proposal) -> str:
    """Return a preset with the proposal. It can be run, and its overrides fit into other presets."""
    low, high = proposal.epsilon_2_range
    training = config.training
    notes = (
        f"Proposed for sattler from {training.rounds} epochs of centralised training: {config.name},",
        f"{training.optimizer} at {training.learning_rate:g} in batches of {training.batch_size}. "
        "Rules of thumb, to start a search from:",
        f"epsilon_1: a tenth of {proposal.largest_norm:.4g}, the largest L2 norm of an epoch's update "
        f"(epoch {proposal.largest_norm_epoch})",
        f"epsilon_2: {EPSILON_2_FACTOR} x epsilon_1; {low:g} to {high:g} by the rule",
        f"cooldown: the epoch after which the loss falls by at most {SETTLED:.0%} of its whole decrease",
    )
    preset: dict[str, Any] = {
        "dataset": config.dataset,
        "model": config.model,
        "algorithm": "sattler",
        "overrides": [
            {
                "when": {"dataset": config.dataset, "algorithm": "sattler"},
                "then": {"algorithm": proposal.settings},
            }
        ],
    }
    return "".join(f"# {note}\n" for note in notes) + yaml.safe_dump(preset, sort_keys=False)


def set_options(proposal: Proposal) -> Sequence[str]:
    """Return the proposal as options of `fedgrid run`."""
    return [f"--set algorithm.{key}={value:g}" for key, value in proposal.settings.items()]
