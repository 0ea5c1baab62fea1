"""A round whose results are looked up in the round cache first, and stored there for other runs.

A round is identified by a digest of its inputs (`runtime.round_cache.key`): two runs that reach the same
models by different histories share every round from there on. Entries of a round are the clients' reports,
inner products of their updates, the mean update of each group of clients that some run has aggregated,
clients' memories, and the tests of the models that followed. The updates themselves are too large to be
stored: a mean that no run has needed before trains its clients again.

Small updates are an exception where clients train from several models: there two runs may share some clusters
but not the complete round, so the replies of the clients that train from one model are an entry.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from fedgrid.algorithms.updates.source import UPDATE, Arrays, ComputeStatistics
from fedgrid.engine.federation.clients.client_round import ClientRound, OtherBits
from fedgrid.engine.federation.clients.messages import (
    Memories,
    Memory,
    Models,
    RoundTests,
    TrainReport,
    TrainTask,
)
from fedgrid.engine.runtime.round_cache import packing
from fedgrid.engine.runtime.round_cache.files import CacheEntry, RoundCache
from fedgrid.engine.runtime.round_cache.key import compute_digest, digest_task

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.orders import Served
    from fedgrid.engine.federation.clients.pool import Pool
    from fedgrid.engine.federation.clients.stopwatch import Stopwatch

REPORTS = "reports"
"""Name of the entry with the clients' reports."""
SMALL_UPDATE_BYTES = 1 << 20
"""Bytes of an update up to which replies are entries, where clients train from several models."""


class CachedRound(ClientRound):
    """One round's work at the clients: cache hits, and what is missing, computed under the round's lock.

    A run that misses an entry locks the round until its end and computes the entry. Other runs that miss
    something of the same round wait meanwhile and look it up again.
    """

    def __init__(
        self,
        tasks: Sequence[TrainTask],
        models: Models,
        memories: Memories,
        pool: Pool,
        round_index: int,
        watch: Stopwatch,
        cache: RoundCache,
    ) -> None:
        """Prepare a round.

        Args:
            tasks: As of `ClientRound`, and so the next five.
            models: Each float32, shape (P,).
            memories: What the clients' last training left.
            pool: Where the clients are.
            round_index: The round, from 0.
            watch: Counts training and waiting.
            cache: The run's view of the round cache.
        """
        super().__init__(tasks, models, memories, pool, round_index, watch)
        self._cache = cache
        self._arrays: dict[str, Arrays] = {}
        """Arrays of this round that were looked up or computed, by the name of the result."""
        self._checksums: dict[int, int] = {}
        """Checksum of each client's update; empty until the reports are there."""
        self._hits: dict[str, CacheEntry] = {}
        """Entries that were read, by the name of the result."""
        self._new: dict[str, CacheEntry] = {}
        """Entries to be written at the round's end, by their names."""
        self._training_cost = 0.0
        """Seconds that training all clients of the round costs."""
        self._groups_read: set[str] = set()
        """Names of the groups of replies that have been looked up."""
        self._starts: dict[int, tuple[str, ...]] = {}
        """Digests of the models that each client may train."""
        self._keys = self._digest_tasks()
        """Digest of each client's training."""
        self._name = self._name_entry(compute_digest(list(self._keys.values())))
        self._lock = cache.make_lock(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hand the new entries to the writer, which releases the lock after them."""
        # After an error the replies may be incomplete. Entries that are complete are written all the same.
        if kind is None:
            self._store_replies()
        self._cache.write_later(self._write_entries)

    def _write_entries(self) -> None:
        """Write the new entries, then release the lock: a run that waits for it finds them."""
        try:
            for name, entry in self._new.items():
                self._cache.write(name, entry)
        finally:
            self._lock.release()

    @property
    def computed_by(self) -> str | None:
        """The run that trained this round's clients, or the first of them; None if it is this one."""
        training = [entry for name, entry in self._hits.items() if name.startswith((REPORTS, UPDATE))]
        return training[0].computed_by if training and not self.trained else None

    @property
    def saved_seconds(self) -> float:
        """Seconds that the cache hits would have cost this run."""
        computing = sum(entry.seconds for entry in self._hits.values())
        return computing + self._training_cost * (1 - len(self.trained) / max(1, self.num_reached))

    def collect_reports(self) -> list[TrainReport]:
        """Collect the clients' reports, cached or from training all of them, in the order of the tasks."""
        tasks = list(self._tasks.values())
        if not tasks:
            return []

        def train_all(_: Sequence[str]) -> list[Arrays]:
            """Train all clients, and pack their reports."""
            self._train_missing(list(self._tasks))
            self._training_cost = self._estimate_training_cost()
            replies = [self._replies[client] for client in self._tasks]
            remembering = frozenset(reply.report.client for reply in replies if self.has_memory(reply))
            return [packing.pack_reports([reply.report for reply in replies], tasks, remembering)]

        (packed,) = self.cached({REPORTS: list(self._tasks)}, train_all)
        reports = packing.unpack_reports(packed, tasks)
        # From now on any reply, statistic and memory must belong to updates with these checksums.
        self._checksums = {report.client: report.checksum for report in reports}
        return reports

    def collect_memories(self) -> dict[int, Memory]:
        """Collect what clients with a usable update are to remember; `collect_reports` comes first."""
        reports = self._arrays.get(REPORTS)
        if reports is None:
            return {}
        remembering = reports["client_N"][reports["usable_N"] & reports["remembers_N"]].tolist()
        names = {f"memory-{client:06d}": client for client in remembering}

        def train_missing(missing: Sequence[str]) -> list[Arrays]:
            """Train the clients whose memories are missing."""
            clients = [names[name] for name in missing]
            self._train_missing(clients)
            return [self._replies[client].memory for client in clients]

        memories = self.cached({name: [client] for name, client in names.items()}, train_missing)
        return dict(zip(remembering, memories, strict=True))

    def test_models(self, served: Served, memories: Memories, testing: Collection[int]) -> RoundTests:
        """Test served models, as `ClientRound.test_models` does, or take the tests from the cache."""
        # Runs that share the training of a round may serve other models after it, or test other clients: the
        # entry is named by all that the tests depend on.
        adapting = memories if served.adaptation else {}
        choosing = sorted(served.choosing & set(testing))
        inputs = [
            self._cache.digests.digest_arrays(served.models),
            served.model_K,
            sorted(testing),
            served.adaptation,
            adapting,
            [choosing, served.choose_on, served.choose_by],
            self._round_index,
        ]
        # Without adaptation and choices tests are the same in every round.
        name = f"tests-{compute_digest(inputs if served.adaptation or choosing else inputs[:3])[:24]}"
        (packed,) = self.cached(
            {name: ()},
            lambda _: [packing.pack_tests(super(CachedRound, self).test_models(served, memories, testing))],
        )
        return packing.unpack_tests(packed)

    def cached(self, clients_of: Mapping[str, Sequence[int]], compute: ComputeStatistics) -> list[Arrays]:
        """Look up arrays; compute the missing ones under the round's lock."""
        # 1. Read what the cache has, without a lock.
        missing = self._look_up(clients_of)
        # 2. Lock the round, or wait for the run that computes it and look again.
        if missing and not self._lock.is_held:
            missing = self._lock_or_wait(missing)
        if missing:
            # 3. Compute what is missing still. The lock stays until the round's end, because what follows
            # mostly misses too.
            self._compute_missing(missing, compute)
        return [self._arrays[name] for name in clients_of]

    def _look_up(self, clients_of: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """Read entries, and return the misses."""
        for name, clients in clients_of.items():
            entry = None if name in self._arrays else self._cache.read(f"{self._name}-{name}")
            # An entry of other bits of the same updates, as a GPU may have given, counts as a miss.
            if entry is not None and entry.updates in ("", self._digest_updates(clients)):
                self._arrays[name], self._hits[name] = entry.arrays, entry
                if name == REPORTS:
                    self._training_cost = entry.cost - entry.seconds
        return {name: clients for name, clients in clients_of.items() if name not in self._arrays}

    def _lock_or_wait(self, missing: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """Take the lock, or wait until its holder lets go; return what is missing then.

        That is nothing, if the other run has computed all of it.
        """
        if not self._lock.try_take():
            pause = 0.01
            with self._watch.time_waiting():
                while missing and not self._lock.try_take():
                    time.sleep(pause)
                    pause = min(2 * pause, 1.0)
                    missing = self._look_up(missing)
        # The last look comes after the lock is taken: its holder may have written entries just before it let
        # go.
        return self._look_up(missing)

    def _compute_missing(self, clients_of: Mapping[str, Sequence[int]], compute: ComputeStatistics) -> None:
        """Compute arrays, and make them entries with what they cost."""
        before = self._watch.server_seconds
        computed = compute(list(clients_of))
        # Without the training, which `_training_cost` counts.
        seconds = (self._watch.server_seconds - before) / len(clients_of)
        for (name, clients), arrays in zip(clients_of.items(), computed, strict=True):
            training = self._training_cost * len(clients) / max(1, self.num_reached)
            self._arrays[name] = arrays
            self._new[f"{self._name}-{name}"] = CacheEntry(
                arrays, self._cache.run_id, seconds, seconds + training, self._digest_updates(clients)
            )

    def _digest_updates(self, clients: Sequence[int]) -> str:
        """Compute a digest of clients' updates.

        Empty for reports, which come before any update is used, and for tests of models, which need none.
        """
        if not self._checksums or not clients:
            return ""
        return compute_digest([self._checksums[client] for client in clients])[:24]

    def _train_missing(self, clients: Sequence[int]) -> None:
        """Train those of `clients` whose replies are neither here nor in the cache.

        Raises:
            OtherBits: one of them gets other bits than those behind the cached results.
        """
        missing = [client for client in clients if client not in self._replies]
        self._read_replies(missing)
        super()._train_missing(missing)
        for client in missing:
            checksum = self._replies[client].report.checksum
            if self._checksums.get(client, checksum) != checksum:
                where = f"client {client}, round {self._round_index + 1}"
                self._cache.warnings.append(f"{where}: trained again with other bits; not shared")
                raise OtherBits(where)

    def _read_replies(self, clients: Sequence[int]) -> None:
        """Read the replies of the groups of `clients`, as far as the cache has them."""
        for name, group in self._reply_groups.items():
            if name in self._groups_read or not set(group) & set(clients):
                continue
            self._groups_read.add(name)
            entry = self._cache.read(name)
            if entry is not None:
                self._replies = packing.unpack_replies(entry.arrays, self._tasks) | self._replies
                self._hits[f"{UPDATE} {name}"] = entry

    def _store_replies(self) -> None:
        """Make the small replies of each group of which this run trained a client an entry."""
        trained = {report.client for report in self.trained}
        for name, group in self._reply_groups.items():
            here = [client for client in group if client in self._replies]
            replies = [self._replies[client] for client in here]
            if not trained & set(group) or replies[0].update.nbytes > SMALL_UPDATE_BYTES:
                continue
            cost = sum(reply.report.seconds for reply in replies)
            arrays = packing.pack_replies(replies, [self._tasks[client] for client in here])
            self._new[name] = CacheEntry(arrays, self._cache.run_id, 0.0, cost)

    @cached_property
    def _reply_groups(self) -> dict[str, list[int]]:
        """Clients that train from the same models, by the name of their entry, if their replies are stored.

        They are where the storage is local, and clients train from several models, or algorithms with other
        settings make other groups of the same replies (`Order.infer`).
        """
        orders = [task.order for task in self._tasks.values()]
        several = len({order.candidates for order in orders}) > 1
        if self._cache.is_far or not (several or any(order.infer for order in orders)):
            return {}
        by_models: dict[tuple[str, ...], list[int]] = {}
        for client, models in self._starts.items():
            by_models.setdefault(models, []).append(client)
        names = [compute_digest([self._keys[client] for client in group]) for group in by_models.values()]
        return {
            f"{self._name_entry(name)}-{UPDATE}s": group
            for name, group in zip(names, by_models.values(), strict=True)
        }

    def _estimate_training_cost(self) -> float:
        """Estimate the seconds that training all clients takes, by those that were trained here."""
        if not self.trained:
            return sum(entry.cost for entry in self._hits.values())
        seconds: dict[str, float] = {}
        for report in self.trained:
            process = report.peak_memory.process
            seconds[process] = seconds.get(process, 0.0) + report.seconds
        # Of the process that trained longest; starting it is not part of the round.
        return max(seconds.values()) * self.num_reached / len(self.trained)

    def _digest_tasks(self) -> dict[int, str]:
        """Compute the digest of each client's training, by client; note those of its models."""
        payloads = [array for task in self._tasks.values() for array in task.order.payload.values()]
        # In one call: arrays that are not in it are forgotten, and large models are digested once a round.
        digests = self._cache.digests.digest_arrays([*self._models, *payloads])
        models, arrays = digests[: len(self._models)], iter(digests[len(self._models) :])
        keys = {}
        for client, task in self._tasks.items():
            self._starts[client] = tuple(models[candidate] for candidate in task.order.candidates)
            payload = {name: next(arrays) for name in task.order.payload}
            keys[client] = compute_digest(
                [self._cache.setup, digest_task(task, models, payload, self._memories.get(client))]
            )
        return keys

    def _name_entry(self, key: str) -> str:
        """Build the first parts of the names of a round's entries."""
        return f"{self._round_index + 1:06d}-{key[:24]}"
