"""The models that a run serves its clients after one of its rounds, and the images that they hold then.

A model is loaded, and adapted, as for the client's own test, so that accuracies are those of the records.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from fedgrid.engine.federation.clients.messages import EvaluateTask, Memories, Models
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.clients.workspace import find_layer_prefix
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.flat_vectors import build_layout
from fedgrid.engine.federation.round.federation import query_served_models
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.run.prepare import find_partition, prepare_setup


class ServingWorker(ClientWorker):
    """The clients of a run, and the modules that they test."""

    def load_module(
        self, task: EvaluateTask, models: Models, memory: Mapping[str, np.ndarray] | None = None
    ) -> nn.Module:
        """Load the module with the weights with which a client is tested, in `eval` mode.

        Raises:
            ConfigError: clients are tested by a rule's own test, and not by a model alone.
        """
        with self.fix_worker_numerics():
            task = self._choose_model(task, models)
            assert task.own is not None, "every client is served a model"
            if task.adaptation is None:
                self._flat.write_vector(models[task.own])
            else:
                # The adapted weights stay in the module.
                if self._adapt_model(task, models, memory or {}).has_own_test:
                    raise ConfigError(
                        f"clients are tested by {type(task.adaptation.rule).__name__}'s own test, and not by "
                        "a model alone, so that there is none to explain; explain a run of another algorithm"
                    )
        return self._flat.module.eval()

    @property
    def layer_prefix(self) -> str:
        """What stands before the name of a model's layer in `load_module`."""
        return find_layer_prefix(self._setup)

    def load_image(self, holder: int | None, place: int, round_index: int) -> tuple[Tensor, int]:
        """Load a test image of a client, or of the server (None), as the model sees it, and its class."""
        held = self._server_set if holder is None else self._holdings.load_test_set(holder, round_index)
        return convert_to_inputs(held.images[place]), int(held.labels[place])

    def load_training_images(self, client: int, round_index: int) -> Tensor:
        """Load a client's training images, as `ImageSet.images`."""
        return self._holdings.load_training_set(client, round_index).images


class ServedModels:
    """A run after one of its rounds: its partition, its clients' images, and the models they are served.

    Raises:
        DataError: the images are missing.
    """

    def __init__(self, config: RunConfig, after: RunState, data_dir: Path, device: str = "cpu") -> None:
        """Prepare the models of a run.

        Args:
            config: The run's configuration.
            after: Its state after the round.
            data_dir: Where data sets are.
            device: Where models work, as torch calls it.
        """
        setup, _ = prepare_setup(config, data_dir)
        self.labels_K = after.state.labels_K
        self.round_index = after.rounds_done - 1
        self.partition = find_partition(config, data_dir, self.round_index)
        self.num_server_images = len(setup.server_set)
        self.inputs = setup.inputs
        self.worker = ServingWorker(setup, device)
        layout = build_layout(setup.model, setup.inputs, setup.num_classes)
        self._served = query_served_models(
            build_algorithm(config), after.state, layout, config.root_seed, self.round_index
        )
        self._memories: Memories = after.memories

    def load_module(self, client: int) -> nn.Module:
        """Load the module with which a client is tested, in `eval` mode; the next call changes it."""
        served = self._served
        choose_on = served.choose_on if client in served.choosing else None
        own = int(served.model_K[client])
        task = EvaluateTask(client, own, served.adaptation, self.round_index, choose_on, served.choose_by)
        return self.worker.load_module(task, served.models, self._memories.get(client, {}))

    def load_mean_module(self, client: int, clients: Iterable[int]) -> nn.Module:
        """Load the module with the mean of the models of other clients, in `eval` mode, likewise."""
        models = [self._served.models[self._served.model_K[other]] for other in clients]
        mean_P = np.asarray(np.mean(models, axis=0, dtype=np.float64), np.float32)
        return self.worker.load_module(EvaluateTask(client, 0, round_index=self.round_index), [mean_P])

    def load_image(self, holder: int | None, place: int) -> tuple[Tensor, int]:
        """Load a test image of a client, or of the server (None), as the model sees it, and its class."""
        return self.worker.load_image(holder, place, self.round_index)

    def load_training_images(self, client: int) -> Tensor:
        """Load a client's training images, as `ImageSet.images`."""
        return self.worker.load_training_images(client, self.round_index)
