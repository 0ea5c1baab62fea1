"""The client actor: a thin Ray shell around `ClientWorker`, pinned to its share of a CPU or GPU."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ray
import torch

from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.clients.messages import ClientData, EvaluateReport, EvaluateTask, ImageSet, TrainTask
from fedgrid.engine.clients.worker import ClientWorker
from fedgrid.engine.plugins import active
from fedgrid.engine.plugins.source import Source
from fedgrid.engine.settings import Training


def device_of(gpu_share: float) -> str:
    """Return what a client actor with this share of a GPU trains on."""
    return "cuda" if gpu_share else "cpu"


@ray.remote(max_restarts=0)
class Client:
    """Hosts one federated client, or several that take turns. Keeps no state that a round depends on."""

    def __init__(self, gpu_share: float) -> None:
        self._device = device_of(gpu_share)
        if gpu_share:
            torch.cuda.set_per_process_memory_fraction(gpu_share)

    def pid(self) -> int:
        """Return the actor's process id."""
        return os.getpid()

    def prepare(
        self,
        model: str,
        num_classes: int,
        training: Training,
        seed: int,
        server_set: ImageSet,
        server_parts: Mapping[int, slice],
        plugins: Sequence[Source],
        *clients: ClientData,
    ) -> None:
        """Take over the clients of a run, and its plugins; the clients of an earlier run are dropped."""
        active.know(plugins)
        active.activate([plugin.digest for plugin in plugins])
        self._host = ClientWorker(
            model=model,
            num_classes=num_classes,
            training=training,
            seed=seed,
            clients=clients,
            server_set=server_set,
            server_parts=server_parts,
            device=self._device,
        )

    def train(
        self, tasks: Sequence[TrainTask], memories: Mapping[int, Vector], *models: Vector
    ) -> tuple[Any, ...]:
        """Return the reports, the memories, then one update a task: an object each in the store."""
        results = self._host.train(tasks, models, memories)
        kept = {report.client: memory for report, _, memory in results if memory is not None}
        return [report for report, _, _ in results], kept, *(np.asarray(update) for _, update, _ in results)

    def evaluate(self, tasks: Sequence[EvaluateTask], *models: Vector) -> list[EvaluateReport]:
        """Test the models at this actor's clients."""
        return self._host.evaluate(tasks, models)
