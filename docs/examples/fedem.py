"""FedEM: a client's images are a mixture of M distributions, with a model each that all clients train.

Source: Marfoq, Neglia, Bellet, Kameni, Vidal, Federated Multi-Task Learning under a Mixture of
Distributions, NeurIPS 2021, arXiv:2108.10252, Algorithm 1. A client shares each image out among the models,
by their losses on it and the client's mixture; trains each model on its parts of all images; and is tested by
the mixture of the models' outputs. Deviations: the models take plain SGD; the server averages those present,
by the run's weights.

Shapes: K clients, N images of one, M models, P entries of a state vector.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedgrid import (
    Adaptation,
    Algorithm,
    AlgorithmEntry,
    Diagnostics,
    Finished,
    Fresh,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    Order,
    OwnNumber,
    Payload,
    Presence,
    Served,
    Settings,
    State,
    Traffic,
    Traits,
    Updates,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{marfoq2021federated,
  author = {Marfoq, Othmane and Neglia, Giovanni and Bellet, Aur{\'e}lien and Kameni, Laetitia
    and Vidal, Richard},
  title = {Federated Multi-Task Learning under a Mixture of Distributions},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2021},
  eprint = {2108.10252},
  archiveprefix = {arXiv}
}"""
CHANGES, MIXTURE = "changes", "mixture"
"""Output with the changes of all models; memory with the client's weights of the models, shape (M,)."""


class MixtureRule(LocalRule):
    """Trains all models of the payload, each on its parts of the images."""

    outputs: ClassVar[tuple[str, ...]] = (CHANGES,)
    remembers: ClassVar[tuple[str, ...]] = (MIXTURE,)

    def start(self, local: LocalModel) -> LocalSteps:
        """Compute the client's parts and mixture; called by the client's loop before the first step."""
        return _Mixture(local)


class _Mixture(LocalSteps):
    """State of one client's training: M models, each with its part of every image."""

    def __init__(self, local: LocalModel) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        self._received = list(local.payload.values())
        chosen, self._states, losses = local.snapshot(), [], []
        with local.inference():
            for model in self._received:
                local.load(model)
                self._states.append(local.snapshot())
                parts = [cross_entropy(local.logits(x), y, reduction="none") for x, y in local.examples()]
                losses.append(torch.cat(parts))
        self._chosen = next(place for place, state in enumerate(self._states) if state.equal(chosen))
        even = np.full(len(losses), 1 / len(losses), np.float32)
        before_M = torch.from_numpy(np.array(local.memory.get(MIXTURE, even))).to(chosen.device)
        self._parts_NM = torch.softmax(before_M.log() - torch.stack(losses, 1), 1)
        is_test = local.num_steps == 0
        self._mixture_M = before_M if is_test and MIXTURE in local.memory else self._parts_NM.mean(0)

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take a step of each model on its parts of the batch; called for each batch."""
        from torch.nn.functional import cross_entropy

        logits = []
        for place, state in enumerate(self._states):
            local.load(state)
            logits.append(local.logits(images))
            parts_N = self._parts_NM[local.positions, place]
            loss = (parts_N * cross_entropy(logits[-1], labels, reduction="none")).mean()
            local.weights.sub_(local.gradient(loss), alpha=local.learning_rate)
            self._states[place] = local.snapshot()
        return self._mix(logits).detach()

    def test(self, local: LocalModel, images: "Tensor") -> "Tensor":
        """Compute the logarithm of the mixture of the models' class probabilities."""
        logits = []
        for state in self._states:
            local.load(state)
            logits.append(local.logits(images))
        return self._mix(logits)

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the changes of all models; the update is that of the one that fitted best."""
        pairs = zip(self._states, self._received, strict=True)
        changes = np.concatenate([local.vector(state) - model for state, model in pairs])
        local.load(self._states[self._chosen])
        return Finished({CHANGES: changes}, {MIXTURE: self._mixture_M.cpu().numpy()})

    def _mix(self, logits: "list[Tensor]") -> "Tensor":
        weighted = [one.softmax(1) * share for one, share in zip(logits, self._mixture_M, strict=True)]
        return sum(weighted[1:], weighted[0]).clamp(min=1e-30).log()


class FedEMSettings(Settings):
    """Number of the models that are mixed."""

    num_models: Annotated[int, Field(ge=1, strict=True)] = 3
    """Number of models, M."""


class FedEM(Algorithm):
    """M models, each averaged over all clients; the partition is by the model that fits a client best."""

    settings: FedEMSettings

    @property
    def traits(self) -> Traits:
        """Clients train by a rule, and models are means of changes that are sent next to the updates."""
        return Traits(trains_plainly=False)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Draw M different models: equal ones would stay equal."""
        models = tuple(fresh(number) for number in range(self.settings.num_models))
        return State(models, np.zeros(num_clients, np.int64))

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client all models, and request the loss of each."""
        every = tuple(range(len(state.models)))
        return [
            Order(client, every, losses=True, rule=MixtureRule(), payload=_payload(state))
            for client in present.sampled
        ]

    def traffic(self, order: Order, layout: Layout) -> Traffic:
        """Count the bytes of M models each way, and of the losses."""
        num_models = len(order.candidates)
        return Traffic(down=4 * num_models * layout.size, up=4 * num_models * (layout.size + 1))

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Average the changes of each model; report how far the models' losses are apart at a client."""
        [mean] = updates.means([updates.clients], output=CHANGES)
        changes = np.split(mean, len(state.models))
        models = tuple(model + change for model, change in zip(state.models, changes, strict=True))
        # `outputs` would train the clients again where the round comes from the cache.
        losses_KM = updates.derived("losses", "each", lambda each: {"each": np.stack(each)})["each"]
        labels_K = state.labels_K.copy()
        labels_K[list(updates.clients)] = losses_KM.argmin(axis=1)
        apart = float(np.ptp(losses_KM, axis=1).mean())
        return State(models, labels_K), Diagnostics(clustered=True, metrics={"losses_apart": apart})

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client by its mixture of the models; one without any makes it of its training images."""
        return Served(state.models, state.labels_K, Adaptation(MixtureRule(), payload=_payload(state)))


def _payload(state: State) -> Payload:
    return {f"{place:06d}": model for place, model in enumerate(state.models)}


ALGORITHMS = [
    AlgorithmEntry(
        name="fedem",
        title="FedEM",
        summary="each client has a mixture of models that all clients train",
        source="Marfoq et al. 2021, arXiv:2108.10252",
        algorithm=FedEM,
        settings=FedEMSettings(),
        numbers=(OwnNumber("losses_apart", "Range of the models' losses at a client, on average."),),
        bibtex=BIBTEX,
    )
]
