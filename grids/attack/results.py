"""The results of an attack on one run, `attacks/<key>.json` in the run's folder; the run is not changed.

They count for the state that was attacked: if the run is made again with another one, so are they.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedgrid.engine import checkpoint
from fedgrid.engine.attacks.settings import Attacking
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import ASIDE, disk_errors, write_bytes, write_text
from fedgrid.engine.storage.storage import Storage

FOLDER = "attacks"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class AttackFiles:
    """Reads and writes the results of one attack on one run."""

    storage: Storage
    config: RunConfig
    settings: Attacking

    @property
    def run(self) -> Path:
        """The run's folder."""
        return folder_of(self.storage.root, self.config)

    @property
    def path(self) -> Path:
        """The JSON file with the rows."""
        return self.run / FOLDER / f"{self.settings.key}.json"

    def read(self) -> list[Row] | None:
        """Return the rows, None if there are none of the run's state as it is now.

        Raises:
            NewerFormat: a newer fedgrid wrote them.
        """
        try:
            found = unseal(self.path)
        except (FileNotFoundError, DamagedFile):
            return None
        rows: list[Row] = found.get("rows", [])
        return rows if found.get("state") == self.state() else None

    def write(self, rows: list[dict[str, Any]], pictures: Mapping[str, bytes]) -> None:
        """Write pictures by the ends of their names, then the rows, which count once they are there.

        Raises:
            RunError: they cannot be written.
        """
        about = {
            "run_id": self.config.run_id,
            "settings": self.settings.model_dump(mode="json"),
            "state": self.state(),
            "rows": rows,
        }
        with disk_errors(self.run):
            self.path.parent.mkdir(exist_ok=True)
            for name, data in pictures.items():
                write_bytes(self.picture(name), data)
                self.push(self.picture(name))
            write_text(self.path, seal(about, indent=1))
            self.push(self.path)

    def picture(self, name: str) -> Path:
        """Return the place of a picture."""
        return self.path.with_name(f"{self.settings.key}-{name}.png")

    @property
    def round(self) -> int:
        """The round after which the run is attacked, from 1."""
        return self.settings.round or self.config.training.rounds

    def states(self) -> tuple[RunState | None, RunState]:
        """Return the run's states before and after the round; None before the first, or if it is gone.

        Raises:
            ConfigError: one is not there: the run was imported, or its states were deleted.
            RunError: one is damaged.
        """
        self.storage.pull(self.run.name, skip=("figures/", f"{FOLDER}/", ASIDE))
        last, kept = self.config.training.rounds, sorted(checkpoint.stored_rounds(self.run))
        for number in (self.round, *([last - 1] if self.round == last > 1 else [])):
            if number not in kept:
                known = f"it keeps {' and '.join(map(str, kept))}; " if kept else ""
                advice = (
                    "take one of them as --round" if kept else "run it again, or leave it out of the grid"
                )
                raise ConfigError(
                    f"it has no state after round {number}, so there is nothing to attack; {known}{advice}"
                )
        before = self._load(self.round - 1) if self.round - 1 in kept else None
        return before, self._load(self.round)

    def _load(self, number: int) -> RunState:
        run_state = checkpoint.load(self.run, number)
        if run_state is None:
            raise RunError(
                f"{self.config.name}: its state after round {number} is damaged; move {self.run} away, and "
                "`fedgrid run` makes it again"
            )
        return run_state

    def state(self) -> str | None:
        """Return the digest of the state that is attacked, None if it is gone."""
        path = self.run / checkpoint.names(self.round)[1]
        return sha256(path.read_bytes()).hexdigest() if path.exists() else None

    def push(self, path: Path) -> None:
        """Send a file of the run's folder to the storage.

        Raises:
            RunError: it cannot be sent.
        """
        self.storage.push(path.relative_to(self.storage.root).as_posix())
