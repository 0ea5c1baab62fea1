"""The client actor: a thin Ray shell around a `ClientWorker`, pinned to its share of a CPU or GPU.

The module is light: the server imports it, and starts the actors, before it imports torch itself, so that all
of them import it at the same time.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import ray
from ray.exceptions import RayActorError

from fedgrid.algorithms.contract.orders import Message
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.clients.messages import (
    ClientData,
    ClientDescription,
    EvaluateReport,
    EvaluateTask,
    Memories,
    Reply,
    Setup,
    TrainTask,
)
from fedgrid.engine.federation.clients.pool import Machine
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import FinalError, RunError
from fedgrid.engine.runtime.clients.gpu_errors import find_last_error, may_pass, name_share
from fedgrid.engine.runtime.clients.machine import describe_machine
from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource

if TYPE_CHECKING:
    from fedgrid.engine.federation.clients.worker import ClientWorker
    from fedgrid.engine.federation.encoders.encoder import Encoder


def explain_death(error: RayActorError) -> str:
    """Explain in one line why an actor's process died.

    Raises:
        FinalError: its start failed, and would fail again; names the cause.
        RunError: its start failed, as others have the GPU or its memory.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not error.actor_init_failed:
        reason = next((line for line in lines if line.startswith("The actor is dead because")), lines[0])
        return reason.partition(" Some common causes")[0]
    cause = find_last_error(str(error))
    if may_pass(cause):
        raise RunError(
            f"a client actor did not start: {cause}; other processes use its GPU: nvidia-smi shows them"
        )
    raise FinalError(f"a client actor did not start: {cause}")


@ray.remote(max_restarts=0)
class Client:
    """Hosts one federated client, or several that take turns; keeps no state that a round depends on.

    The server's `RayPool` calls its methods, in the order of those of a `Pool`. Ray does not restart it: the
    pool does, because a new actor needs its data again.
    """

    def __init__(self, gpu_share: float, title: str = "Client") -> None:
        """Start an actor.

        Args:
            gpu_share: Share of a GPU, and of its memory; 0: it trains on the CPU.
            title: The name that Ray shows.
        """
        # Before the imports, which make most of the objects.
        gc.set_threshold(NEW_OBJECTS)
        # Imports torch, while the server does.
        from fedgrid.engine.federation.clients.worker import ClientWorker

        self._worker_class = ClientWorker
        self._worker: ClientWorker | None = None
        self._title = title
        self._device = "cuda" if gpu_share else "cpu"
        self._gpu_share = float(gpu_share)
        if gpu_share:
            import torch

            # Actors that share a GPU would otherwise fill its memory one at the cost of another. torch
            # accepts no int here.
            torch.cuda.set_per_process_memory_fraction(self._gpu_share)

    def __repr__(self) -> str:
        return self._title

    def machine(self) -> Machine:
        """Describe what training here depends on."""
        return describe_machine(self._device)

    def prepare(
        self,
        setup: Setup,
        plugins: Sequence[PluginSource],
        server_set: ImageSet,
        reference_set: ImageSet | None,
        *clients: ClientData,
    ) -> None:
        """Take over the clients and plugins of a run; drop the clients of an earlier one.

        Args:
            setup: The run's setup, without images.
            plugins: Sources of the run's plugins.
            server_set: The server's test set.
            reference_set: The server's reference images, if it has any.
            clients: The clients of this actor. Each is an argument of its own, so that Ray hands over the
                objects of the store and not references to them.
        """
        active.register_sources(plugins)
        active.activate_plugins(setup.plugins)
        setup = replace(setup, server_set=server_set, reference_set=reference_set, clients=clients)
        # Drop the models and images of the run before first: the device may not hold both.
        self._worker = None
        with name_share(self._gpu_share):
            self._worker = self._worker_class(setup, self._device)

    def _require_worker(self) -> "ClientWorker":
        """Return the worker, which `prepare` has made."""
        assert self._worker is not None, "prepare comes first"
        return self._worker

    def describe(
        self, clients: Sequence[int], message: Message, encoder: "Encoder | None"
    ) -> list[ClientDescription]:
        """Describe the data of clients of this actor, as the message says."""
        with name_share(self._gpu_share):
            return self._require_worker().describe(clients, message, encoder)

    def train(
        self,
        tasks: Sequence[TrainTask],
        payloads: Sequence[Mapping[str, int]],
        memories: Memories,
        num_models: int,
        *arrays: Vector,
    ) -> list[Reply]:
        """Train clients; return the tasks' replies: an object each, or with `num_returns` of 1 one list.

        Args:
            tasks: The clients' training, without the arrays of their orders.
            payloads: For each task, the positions among `arrays` of its order's arrays, by name.
            memories: What each client's last training left.
            num_models: How many of the first `arrays` are models.
            arrays: The models, then the arrays of all orders, which Ray takes from the object store.
        """
        tasks = [
            replace(
                task, order=replace(task.order, payload={name: arrays[at] for name, at in places.items()})
            )
            for task, places in zip(tasks, payloads, strict=True)
        ]
        with name_share(self._gpu_share):
            return self._require_worker().train(tasks, arrays[:num_models], memories)

    def evaluate(
        self, tasks: Sequence[EvaluateTask], memories: Memories, *models: Vector
    ) -> list[EvaluateReport]:
        """Test the models at this actor's clients."""
        with name_share(self._gpu_share):
            return self._require_worker().evaluate(tasks, models, memories)
