"""A run from configuration to finished folder, in whatever pool its clients live."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError, FedgridError, RunError
from fedgrid.engine.federation.round.federation import Federation, make_model_source
from fedgrid.engine.federation.round.next_round import next_round
from fedgrid.engine.runtime.clients.local_pool import LazyPool
from fedgrid.engine.runtime.clients.machine import explain_slow_precision, select_relevant_machines
from fedgrid.engine.runtime.integrity.made_with import collect_made_with
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm, list_own_numbers
from fedgrid.engine.runtime.round_cache.cached_round import CachedRound
from fedgrid.engine.runtime.round_cache.files import RoundCache
from fedgrid.engine.runtime.round_cache.key import digest_setup
from fedgrid.engine.runtime.run.prepare import load_run_images, prepare_setup
from fedgrid.engine.runtime.run.pretraining import ENCODER, Pretraining, build_pretraining
from fedgrid.engine.runtime.run.round_writer import RoundWriter
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.run.shorter_runs import take_rounds
from fedgrid.engine.runtime.storage.atomic import DiskFull

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from fedgrid.algorithms.contract.base import Labels
    from fedgrid.engine.federation.clients.messages import Setup
    from fedgrid.engine.federation.clients.pool import Machine, Pool
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.round.record import RoundRecord
    from fedgrid.engine.federation.round.run_state import RunState
    from fedgrid.engine.runtime.round_cache.files import CacheOptions
    from fedgrid.engine.runtime.storage.storage import Storage


@dataclass(frozen=True)
class OpenRun:
    """A run, ready for its next round."""

    folder: RunFolder
    federation: Federation
    run_state: RunState
    cache: RoundCache | None
    """The run's view of the round cache; None: every round is computed here."""
    writer: RoundWriter


class Session:
    """Opens runs, one after the other, and takes them forward a round at a time."""

    def __init__(
        self,
        pool: Pool,
        data_dir: Path,
        *,
        threads: int = 1,
        write_behind: bool = False,
        cache: CacheOptions | None = None,
        accept_changes: bool = False,
    ) -> None:
        """Prepare a session; nothing is opened yet.

        Args:
            pool: Where clients train.
            data_dir: Where data sets are.
            threads: Threads of the server's computations; 1 by default.
            write_behind: Whether rounds are written while the next ones train, so that the disk costs no time
                (the last one is waited for). A kill then costs those too that `RoundWriter` has not written;
                `find_last_write` says if the last one is on disk.
            cache: How the round cache is used; None, the default, has every round computed here.
            accept_changes: Whether a run goes on with other code, versions or machines than it began with,
                and on machines of several kinds.
        """
        self._accept = accept_changes
        self._pool = LazyPool(pool)
        self._data_dir = data_dir
        self._threads = threads
        self._write_behind = write_behind
        self._cache = cache
        self._run: OpenRun | None = None

    def open(self, config: RunConfig, storage: Storage) -> int:
        """Start or continue the run of `config`; return the number of rounds it has already.

        Raises:
            DataError: if the images are missing, or are others than those of the rounds so far.
            ConfigError: if the configuration does not fit the data, the folder is of another one, or the
                rounds so far were made with something else that is not accepted.
            RunError: if the run's states cannot be used, or the storage cannot be written.
        """
        with suppress(RunError):  # It is of another run, whose next opening finds what there is.
            self.wait_for_writes()
        # 1. The folder and its state; what the run is made of, checked against the rounds so far.
        folder = RunFolder(storage, config)
        run_state = folder.open()
        algorithm = build_algorithm(config)
        setup, truth_K = prepare_setup(config, self._data_dir)
        machines = self._find_machines(config)
        rounds_done = run_state.rounds_done if run_state else 0
        pretraining = self._record_origin(config, folder, setup, truth_K, machines, rounds_done)
        # 2. The cache, which also makes room on a full disk. A run without rounds takes those of a shorter
        # one.
        cache = self._open_cache(config, storage, setup, machines)
        if (
            run_state is None
            and cache is not None
            and cache.options.takes_rounds
            and take_rounds(folder, storage)
        ):
            run_state = folder.open()
            rounds_done = run_state.rounds_done if run_state else 0
        # 3. The encoder, only if rounds are left: it is trained in the same pool, before that gets the
        # clients' data.
        encoder = None
        if pretraining is not None and rounds_done < config.training.rounds and not folder.is_done:
            encoder = pretraining.load_or_train(self._pool, storage, folder.log)
        # 4. The clients' data, which `LazyPool` hands over at the first task.
        self._pool.prepare(setup)
        federation = Federation.from_config(
            config,
            algorithm,
            setup,
            truth_K,
            threads=self._threads,
            encoder=encoder,
            numbers=list_own_numbers(config),
        )
        if run_state is None:
            run_state = federation.create_first_state(make_model_source(setup))
        folder.log(f"continues after round {rounds_done}" if rounds_done else "starts")
        if (slow := explain_slow_precision(machines, config.training.precision)) is not None:
            folder.log(f"warning: {slow}")
        # A run that was killed after its last round, before it was marked as finished.
        if federation.is_over(run_state):
            _retry_after_eviction(folder.finish, cache)
        self._run = OpenRun(folder, federation, run_state, cache, _create_writer(folder, cache))
        return rounds_done

    def next_round(self) -> RoundRecord:
        """Run one round and store it.

        Raises:
            RunError: if the round cannot be finished; the folder is as it was after the round before.
        """
        assert self._run is not None, "open() comes first"
        run = self._run
        folder, federation, cache = run.folder, run.federation, run.cache
        rounds = partial(CachedRound, cache=cache) if cache is not None else None
        try:
            run_state, record = next_round(federation, run.run_state, self._pool, rounds)
            self._log_warnings()
            run.writer.add_round(record, run_state)
        except Exception as error:
            # One of ours with a cause wraps an error of the system or of a plugin, whose traceback the log
            # should have.
            expected = isinstance(error, FedgridError) and error.__cause__ is None
            with suppress(RunError):  # On a full disk, say: the error itself matters more.
                folder.log(f"failed: {error if expected else traceback.format_exc()}")
            self.wait_for_writes()
            raise
        self._run = replace(run, run_state=run_state)
        is_last = federation.is_over(run_state)
        if is_last or not self._write_behind:
            self.wait_for_writes()
        if is_last:
            _retry_after_eviction(folder.finish, cache)
        return record

    def _record_origin(
        self,
        config: RunConfig,
        folder: RunFolder,
        setup: Setup,
        truth_K: Labels,
        machines: Sequence[Machine],
        rounds_done: int,
    ) -> Pretraining | None:
        """Record what the next rounds are made with; return the training of the run's encoder, if any."""
        algorithm = build_algorithm(config)
        (_, official), images = load_run_images(config, self._data_dir)
        pretraining = build_pretraining(config, algorithm, setup, truth_K, machines, official, self._data_dir)
        parts = dict(collect_made_with(algorithm, images, machines))
        if pretraining is not None:
            parts[ENCODER] = pretraining.id
        folder.record_made_with(parts, rounds_done, accept=self._accept)
        return pretraining

    def _find_machines(self, config: RunConfig) -> Sequence[Machine]:
        """Find the machines that the clients train on: one kind, unless several are accepted.

        Raises:
            ConfigError: there are several.
        """
        machines = select_relevant_machines(self._pool.machines(), config.training.precision)
        if len(machines) > 1 and not self._accept:
            kinds = " and ".join(", ".join(machine.values()) for machine in machines)
            raise ConfigError(
                f"{config.name}: its client actors are on machines that compute differently ({kinds}), so "
                "its numbers would depend on which client trains where; use nodes of one kind, or "
                "--accept-changes"
            )
        return machines

    def _open_cache(
        self, config: RunConfig, storage: Storage, setup: Setup, machines: Sequence[Machine]
    ) -> RoundCache | None:
        """Open the round cache for a run.

        None if the cache is off, or clients train on machines of several kinds.
        """
        # On several kinds of machines a round depends on which client is where: nothing is shared.
        if self._cache is None or len(machines) > 1:
            return None
        key = digest_setup(setup, machines[0])
        cache = RoundCache(storage, config.shared_prefix, config.run_id, self._cache, key)
        cache.free_disk()
        return cache

    def find_last_write(self) -> Future[None] | None:
        """Find the write of the last round of `next_round`, None if it is on disk."""
        return None if self._run is None else self._run.writer.writing

    def wait_for_writes(self) -> None:
        """Wait until the last round of `next_round` is on disk.

        Raises:
            RunError: if it could not be written.
        """
        if self._run is not None:
            if self._run.cache is not None:
                self._run.cache.wait_for_writes()
            self._log_warnings()
            self._run.writer.wait_for_writes()

    def _log_warnings(self) -> None:
        """Log what went wrong in the round cache, whose entries are written meanwhile."""
        if self._run is not None and self._run.cache is not None:
            warnings = self._run.cache.take_warnings()
            self._run.folder.log(*(f"warning: {warning}" for warning in warnings))


def _create_writer(folder: RunFolder, cache: RoundCache | None) -> RoundWriter:
    """Create the writer of a run's rounds."""
    return RoundWriter(lambda rounds: _retry_after_eviction(partial(folder.save_rounds, rounds), cache))


def _retry_after_eviction(write: Callable[[], None], cache: RoundCache | None) -> None:
    """Write files of the run; on a full disk the round cache gives way, and they are written once more."""
    try:
        write()
    except DiskFull:
        if cache is None or not cache.evict_headroom():
            raise
        write()
