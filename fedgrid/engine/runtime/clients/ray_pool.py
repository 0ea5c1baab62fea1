"""The pool of client actors: which actor hosts which clients, what it is sent, how dead ones are replaced."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from fedgrid.algorithms.contract.orders import Message
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.clients.messages import (
    ClientDescription,
    EvaluateReport,
    EvaluateTask,
    Memories,
    Models,
    Reply,
    Setup,
    TrainTask,
)
from fedgrid.engine.federation.clients.pool import Machine
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients.actor import Client, explain_death
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.clients.machine import BFLOAT16, select_relevant_machines
from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.clock import MAX_DEATHS, Deadlines

if TYPE_CHECKING:
    from fedgrid.engine.federation.encoders.encoder import Encoder

START_TIMEOUT = 300.0
"""Seconds for an actor to start and take its data: a bundle is reserved, so only a broken node needs more."""

SHOWN_CLIENTS = 4
"""Number of clients in the name of a task."""
SMALL_MODEL_BYTES = 1 << 20
"""Bytes of a model up to which an actor's replies are one object: each object costs a millisecond."""

Ref: TypeAlias = "ray.ObjectRef[Any]"
T = TypeVar("T")
NO_IMAGES = ImageSet(np.zeros((0, 0, 0, 0), np.uint8), np.zeros(0, np.int64))
"""Stands for the server's images in what actors get first: the images are objects of their own."""


class RayPool:
    """Client actors in bundles 1.. of a placement group; bundle 0 is the server's.

    An actor that dies, or does not answer in time (`Deadlines`), is replaced and does its part of the round
    again: the same numbers, because an actor keeps nothing that a round depends on.
    """

    def __init__(self, group: PlacementGroup, placement: Placement) -> None:
        self.run_name = ""
        """Name of the run, for the names of tasks: actors serve one run after another."""
        self.placement = placement
        self._group = group
        self._actors = [self._start_actor(index) for index in range(placement.num_actors)]
        self._deaths = [0] * placement.num_actors
        self._deadlines = Deadlines(monotonic)
        self._home: dict[int, int] = {}
        self._setup: Setup | None = None
        self._machines: dict[int, Machine] = {}
        self._shared: dict[int, tuple[Vector, Ref]] = {}

    def machines(self) -> list[Machine]:
        """List the machines of the actors; equal ones count once."""
        missing = [index for index in range(len(self._actors)) if index not in self._machines]
        answers = self._call_actors(
            dict.fromkeys(missing),
            lambda index: [self._actors[index].machine.remote()],
            "machine",
            "before round 1",
        )
        self._machines |= {index: machine for index, [machine] in answers.items()}
        alike = {tuple(sorted(machine.items())) for machine in self._machines.values()}
        return [dict(items) for items in sorted(alike)]

    def prepare(self, setup: Setup) -> None:
        """Deal the clients out to the actors, largest first, each to the one with least work so far."""
        self._deaths = [0] * len(self._actors)
        self._deadlines = Deadlines(monotonic)
        sizes = {data.client: len(data.train) for data in setup.clients}
        self._home = _deal_clients(sizes, len(self._actors), setup.training.stacked)
        # Each client's data are an object of their own, sent only to the actor that hosts it; a new actor in
        # the place of a dead one gets them from the store again.
        self._data = {data.client: ray.put(data.copy_images()) for data in setup.clients}
        self._images = ray.put(setup.server_set), ray.put(setup.reference_set)
        self._setup = replace(setup, clients=(), server_set=NO_IMAGES, reference_set=None)
        self._plugins = active.list_sources(setup.plugins)
        self._call_actors(range(len(self._actors)), self._prepare_actor, "prepare", "before round 1")

    def describe(
        self, clients: Sequence[int], message: Message, encoder: "Encoder | None" = None
    ) -> list[ClientDescription]:
        """Describe the data of each of `clients`, each in its actor."""
        shares = self._group_by_actor(clients, lambda client: client)
        put = encoder and ray.put(encoder)

        def submit_messages(index: int) -> list[Ref]:
            """Start the messages of one actor's clients."""
            return [self._actors[index].describe.remote(shares[index], message, put)]

        results = self._call_actors(shares, submit_messages, "describe", "the clients' messages")
        described = {
            client: described
            for index, [answers] in results.items()
            for client, described in zip(shares[index], answers, strict=True)
        }
        return [described[client] for client in clients]

    def train(self, tasks: Sequence[TrainTask], models: Models, memories: Memories) -> list[Reply]:
        """Train every task's client in its actor; updates and outputs come back as views of the object store.

        Memories are copied: those of clients that are not in the next rounds would keep their updates there.
        """
        shares = self._group_by_actor(tasks, lambda task: task.client)
        # Arrays of orders are sent once per actor, however many of its clients' orders have them.
        arrays = {id(array): array for task in tasks for array in task.order.payload.values()}
        places = {key: len(models) + index for index, key in enumerate(arrays)}
        refs = self._share_arrays([*models, *arrays.values()])

        def submit_training(index: int) -> list[Ref]:
            """Start the training of one actor's clients."""
            mine = shares[index]
            payloads = [
                {name: places[id(array)] for name, array in task.order.payload.items()} for task in mine
            ]
            bare = [replace(task, order=replace(task.order, payload={})) for task in mine]
            remembered = {task.client: memories[task.client] for task in mine if task.client in memories}
            name = self._name_task("train", f"{when}, {_format_clients(task.client for task in mine)}")
            # One object a reply lets the store free large updates one by one.
            num_returns = 1 if are_small else len(mine)
            train = self._actors[index].train.options(num_returns=num_returns, name=name)
            sent = train.remote(bare, payloads, remembered, len(models), *refs)
            return [sent] if num_returns == 1 else list(sent)

        replies: dict[int, Reply] = {}
        when = f"round {tasks[0].round_index + 1}"
        are_small = models[0].nbytes <= SMALL_MODEL_BYTES
        results = self._call_actors(shares, submit_training, "train", when)
        for objects in results.values():
            for reply in objects[0] if len(objects) == 1 else objects:
                memory = {name: array.copy() for name, array in reply.memory.items()}
                replies[reply.report.client] = replace(reply, memory=memory)
        return [replies[task.client] for task in tasks]

    def evaluate(
        self, tasks: Sequence[EvaluateTask], models: Models, memories: Memories
    ) -> list[EvaluateReport]:
        """Test the models at every task's client, in its actor."""
        shares = self._group_by_actor(tasks, lambda task: task.client)
        refs = self._share_arrays(models)

        def submit_tests(index: int) -> list[Ref]:
            """Start the tests of one actor's clients."""
            adapting = [task.client for task in shares[index] if task.adaptation is not None]
            remembered = {client: memories[client] for client in adapting if client in memories}
            name = self._name_task("evaluate", _format_clients(task.client for task in shares[index]))
            evaluate = self._actors[index].evaluate.options(name=name)
            return [evaluate.remote(shares[index], remembered, *refs)]

        results = self._call_actors(shares, submit_tests, "evaluate", "testing the served models").values()
        by_client = {report.client: report for [reports] in results for report in reports}
        return [by_client[task.client] for task in tasks]

    def _call_actors(
        self, indices: Mapping[int, Any] | range, submit: Callable[[int], list[Ref]], kind: str, when: str
    ) -> dict[int, list[Any]]:
        """Call the actors at `indices` in parallel; one that dies or hangs is replaced and called again.

        Args:
            indices: Positions of the actors.
            submit: Starts the call of one actor; its objects are the answer.
            kind: Kind of the call, by which deadlines are learned.
            when: The part of the run, for messages.

        Raises:
            RunError: a call fails by its own error, or an actor dies or hangs too often.
        """
        pending = {index: submit(index) for index in indices}
        results: dict[int, list[Any]] = {}
        while pending:
            dead: dict[int, str] = {}
            start = self._deadlines.now()
            limit = self._deadlines.find_deadline(kind)
            for index, refs in pending.items():
                try:
                    # All run in parallel, so the limit is one for all. Even without time left, an answer that
                    # is there is taken.
                    left = max(0.0, start + limit - self._deadlines.now())
                    results[index] = ray.get(refs, timeout=left)
                except RayTaskError as error:
                    # An error of the code itself: the same actor, or another, would raise it again.
                    raise _find_cause(error) from error
                except RayActorError as error:
                    dead[index] = explain_death(error)
                except GetTimeoutError:
                    dead[index] = f"no answer within {limit:.0f} s"
            # A time with a dead actor in it says nothing about the others' speed.
            if not dead:
                self._deadlines.record_duration(kind, self._deadlines.now() - start)
            for index, death in dead.items():
                self._replace_actor(index, death, when)
            pending = {index: submit(index) for index in dead}
        return results

    def _replace_actor(self, index: int, cause: str, when: str) -> None:
        """Replace an actor that died or hung, and give the new one its clients.

        Raises:
            RunError: it has died too often, or no new one starts.
        """
        self._deaths[index] += 1
        here = [str(client) for client, home in self._home.items() if home == index]
        hosted = f"client{'s' * (len(here) > 1)} {', '.join(here)}"
        if self._deaths[index] >= MAX_DEATHS:
            raise RunError(
                f"{hosted}, {when}: the actor died or hung {MAX_DEATHS} times, last: {cause.rstrip('.')}. "
                "It may be out of memory: fewer actors at a time (--clients-per-actor) need less"
            )
        # A hanging actor still holds its bundle and its memory.
        ray.kill(self._actors[index])
        self._actors[index] = self._start_actor(index)
        try:
            self._check_machine(index, hosted, when)
            if self._setup is not None:
                ray.get(self._prepare_actor(index), timeout=START_TIMEOUT)
        except (ActorDiedError, ActorUnavailableError) as again:
            self._replace_actor(index, explain_death(again), when)
        except GetTimeoutError as again:
            raise RunError(
                f"{hosted}, {when}: its actor died and no replacement started within "
                f"{START_TIMEOUT:g} s; "
                "check the cluster's nodes, then repeat the command to continue"
            ) from again

    def _check_machine(self, index: int, hosted: str, when: str) -> None:
        """Check that a new actor computes as the one that it replaces, if that is required.

        Raises:
            RunError: it is on another kind of machine.
        """
        if index not in self._machines:
            return
        machine = ray.get(self._actors[index].machine.remote(), timeout=START_TIMEOUT)
        before = self._machines[index]
        precision = BFLOAT16 if self._setup is None else self._setup.training.precision
        self._machines[index] = machine
        if len(select_relevant_machines([before, machine], precision)) > 1:
            was, now = (sorted(one.items() - other.items()) for one, other in permutations((before, machine)))
            raise RunError(
                f"{hosted}, {when}: its actor died, and its replacement is on another kind of machine "
                f"({dict(now)} instead of {dict(was)}); the same command goes on where the machines are "
                "as before, or with --accept-changes"
            )

    def _start_actor(self, index: int) -> Any:
        """Start the actor of a bundle."""
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=index + 1)
        share = self.placement
        title = f"Client actor {index + 1} of {self.placement.num_actors}"
        return Client.options(  # type: ignore[attr-defined]
            num_cpus=share.cpus_per_actor, num_gpus=share.gpus_per_actor, scheduling_strategy=strategy
        ).remote(share.gpus_per_actor, title)

    def _name_task(self, method: str, what: str) -> str:
        """Build a task's name in Ray's dashboard and `ray list tasks`, and of its process meanwhile."""
        return ", ".join(part for part in (f"Client.{method}", self.run_name, what) if part)

    def _prepare_actor(self, index: int) -> list[Ref]:
        """Start sending an actor the setup and its clients' data."""
        data = [self._data[client] for client, home in self._home.items() if home == index]
        return [self._actors[index].prepare.remote(self._setup, self._plugins, *self._images, *data)]

    def _group_by_actor(self, items: Sequence[T], find_client: Callable[[T], int]) -> dict[int, list[T]]:
        """Group items by the actor that hosts their client."""
        shares: dict[int, list[T]] = {}
        for item in items:
            shares.setdefault(self._home[find_client(item)], []).append(item)
        return shares

    def _share_arrays(self, arrays: Models) -> list[Ref]:
        """Put every distinct array into the object store once, and keep it there while it is in use."""
        # Arrays that are not in this call are dropped, which frees them in the store; the array itself is
        # kept with its reference, so that no new array gets its `id`.
        self._shared = {id(array): self._shared.get(id(array)) or (array, ray.put(array)) for array in arrays}
        return [self._shared[id(array)][1] for array in arrays]


def create_server_pool(placement: Placement) -> RayPool | InProcessPool:
    """Create the pool of the runs of this server, which is in a placement group."""
    if placement.in_server:
        return InProcessPool()
    group = ray.util.get_current_placement_group()
    assert group is not None, "a trial has a placement group"
    return RayPool(group, placement)


def _deal_clients(sizes: Mapping[int, int], num_actors: int, num_slots: int) -> dict[int, int]:
    """Map each client to an actor, so that actors have about the same number of images.

    Clients of one stack are on one actor.
    """
    stacks: dict[int, int] = {}
    for client, size in sizes.items():
        stacks[client // num_slots] = stacks.get(client // num_slots, 0) + size
    load = [0] * num_actors
    home = {}
    # Largest first, to the actor with least so far; ties by number, so that every driver deals in the same
    # way.
    for stack in sorted(stacks, key=lambda stack: (-stacks[stack], stack)):
        home[stack] = min(range(num_actors), key=lambda index: (load[index], index))
        load[home[stack]] += stacks[stack]
    return {client: home[client // num_slots] for client in sorted(sizes)}


def _format_clients(clients: Iterable[int]) -> str:
    """Format `client 3`, or `clients 0 2 4 6 and 3 more`."""
    numbers = [str(client) for client in clients]
    more = f" and {len(numbers) - SHOWN_CLIENTS} more" if len(numbers) > SHOWN_CLIENTS else ""
    return f"client{'s' * (len(numbers) > 1)} {' '.join(numbers[:SHOWN_CLIENTS])}{more}"


def _find_cause(error: RayTaskError) -> Exception:
    """Find the error within Ray's: one of ours has its own message, another keeps its remote traceback."""
    cause = error.cause
    return cause if isinstance(cause, RunError) else RunError(str(error))
