"""Reuse of the first rounds of a finished run that differs only in having fewer rounds.

The number of rounds changes a run's numbers only in the tests of its last round: they are made whatever
`evaluation.every` says, or only then (`evaluation.local_server: last`), and clients that are held out are
served after it. Where that is so, the round before is the last one in common.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from glob import escape
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.plugins.run_algorithm import list_own_columns
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.records import read_records
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, load_manifest
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import MANIFEST
from fedgrid.record_columns import build_schemas

UNUSABLE = (FileNotFoundError, DamagedFile, UnreadableFile, ConfigError)
"""Errors of reading another run's files: it may be deleted meanwhile, or be a newer fedgrid's."""


def find_shorter_run(config: RunConfig, storage: Storage) -> tuple[RunConfig, int] | None:
    """Find the finished run that has the most of another run's first rounds, and how many; None without."""
    return max(_iterate_shorter_runs(config, storage), key=itemgetter(1), default=None)


def _iterate_shorter_runs(config: RunConfig, storage: Storage) -> Iterator[tuple[RunConfig, int]]:
    """Yield finished runs of a configuration with fewer rounds, and how many rounds each has in common."""
    for path in storage.root.glob(f"{escape(config.name)}-*/{MANIFEST}"):
        with suppress(*UNUSABLE):
            manifest = load_manifest(path.parent)
            rounds = manifest.rounds_done  # One that has stopped early was to have more.
            if not manifest.is_finished or not 0 < manifest.rounds < config.training.rounds:
                continue
            shorter = config.with_rounds(manifest.rounds)
            # The folder's name has the run's id, so equal names mean equal configurations.
            if build_folder_path(storage.root, shorter) == path.parent:
                evaluation = config.evaluation
                has_own_tests = rounds % evaluation.every != 0 or evaluation.local_server == "last"
                common = rounds - 1 if has_own_tests or config.held_out else rounds
                if common:
                    yield shorter, common


def take_rounds(folder: RunFolder, storage: Storage) -> bool:
    """Give a run that has no rounds those of a shorter one, as the bytes that it would write itself.

    Returns whether there are any, undamaged, and made with what the manifest of this run says.

    Raises:
        RunError: the storage cannot be read or written.
    """
    if storage.uri:  # A listing of all runs would take longer.
        every = (folder.config.with_rounds(rounds) for rounds in range(1, folder.config.training.rounds))
        storage.refresh(*(f"{build_folder_path(storage.root, run).name}/{MANIFEST}" for run in every))
    if (match := find_shorter_run(folder.config, storage)) is None:
        return False
    config, common = match
    shorter = RunFolder(storage, config)
    storage.pull(shorter.path.name)
    try:
        # Rounds that were made with other code, versions or machines may have other bits than this run would
        # give them.
        if load_parts(shorter.path) != load_parts(folder.path) or shorter.find_damage():
            return False
        taken = _read_first_rounds(shorter, common)
    except UNUSABLE:
        return False
    folder.store_first_rounds(*taken)
    folder.log(f"rounds 1 to {common} are those of {shorter.path.name}")
    return True


def _read_first_rounds(run: RunFolder, rounds: int) -> tuple[RunState, Mapping[str, pa.Table]]:
    """Read the state of a finished run after some rounds, and the records so far, by table."""
    tables = {
        table: read_records(run.path, table, schema).filter(pc.field("round") <= rounds)
        for table, schema in build_schemas(list_own_columns(run.config)).items()
    }
    return checkpoint.load_state(run.path, rounds), tables
