"""FedEM: each client has a mixture of models, and all clients train all of them.

Source: Marfoq, Neglia, Bellet, Kameni, Vidal, Federated Multi-Task Learning under a Mixture of Distributions,
NeurIPS 2021, arXiv:2108.10252, Algorithm 1, and the authors' code (omarfoq/FedEM). Client i has the weights
pi_ik of the K models theta_k, which are 1/K at first. In each round, with l the loss of an image in inference
mode:

1. q_sk = pi_ik exp(-l(theta_k; s)) / sum_m pi_im exp(-l(theta_m; s)) for each of its training images s.
2. pi_ik = the mean of q_sk over its images.
3. It trains each model by itself: a step descends the mean of q_sk l(theta_k; s) over a batch, which is not
   divided by the sum of q; q stays as it is.
4. The server averages each model over the clients; pi does not enter.

A client is tested with the probabilities sum_k pi_ik softmax(theta_k(x)) of the newest models, with the pi of
its last round. One that has never trained, such as a newcomer or a client that was held out, computes pi from
the newest models (1 and 2) for the test.

Deviations: the server averages the clients that are present, by the run's `weights`; the authors average all
clients by their numbers of images, absent ones with the old model. A client also sends pi, by which records
label it. Optimizers are of the run's kind, one a model; the authors' momentum lasts over rounds.

Shapes: K clients of the federation, M models (K in the paper), N images of a client, P entries of a state.
"""

from collections.abc import Sequence
from dataclasses import replace
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
    Presence,
    Served,
    Settings,
    State,
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
OTHERS, CHANGES, MIXTURE = "models", "changes", "mixture"
"""The payload, models of shape (n, P); an output, the changes of all models but the first, one after the
other; and an output that the client remembers too, pi, float32, shape (M,)."""


class MixtureRule(LocalRule):
    """Trains the ordered model and those of the payload; in a test the payload has all of them."""

    outputs: ClassVar[tuple[str, ...]] = (CHANGES, MIXTURE)
    remembers: ClassVar[tuple[str, ...]] = (MIXTURE,)

    def start(self, local: LocalModel) -> LocalSteps:
        """Compute the client's q and pi."""
        return _MixtureSteps(local)


class _MixtureSteps(LocalSteps):
    """The models of one client's training, as snapshots, with q and pi."""

    def __init__(self, local: LocalModel) -> None:
        import torch

        models = [local.tensor(model) for model in local.payload[OTHERS]]
        self._models = models if local.is_adapting else [local.snapshot(), *models]
        even_M = np.full(len(self._models), 1 / len(self._models), np.float32)
        before_M = torch.tensor(local.memory.get(MIXTURE, even_M), device=local.weights.device)
        self._mixture_M = before_M
        if local.is_adapting and MIXTURE in local.memory:
            return
        self._parts_NM = torch.softmax(before_M.log() - local.losses(self._models), 1)
        self._mixture_M = self._parts_NM.mean(0)

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take a step of each model on its parts of the batch."""
        from torch.nn.functional import cross_entropy

        logits = []
        for number, model in enumerate(self._models):
            local.load(model)
            logits.append(local.logits(images))
            losses_N = cross_entropy(logits[-1], labels, reduction="none")
            gradient = local.gradient((self._parts_NM[local.positions, number] * losses_N).mean())
            local.optimizer(f"model {number}").descend(local.weights, gradient)
            self._models[number] = local.snapshot()
        return self._mix_logits(logits).detach()

    def test(self, local: LocalModel, images: "Tensor") -> "Tensor":
        """Compute the logarithm of the mixture of the models' class probabilities."""
        logits = []
        for model in self._models:
            local.load(model)
            logits.append(local.logits(images))
        return self._mix_logits(logits)

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the changes and pi; the client's update is the change of the first model."""
        if local.is_adapting:
            return Finished()
        local.load(self._models[0])
        pairs = zip(self._models[1:], local.payload[OTHERS], strict=True)
        changes = [local.vector(model) - received for model, received in pairs]
        mixture_M = self._mixture_M.cpu().numpy()
        return Finished(
            {CHANGES: np.concatenate([np.zeros(0, np.float32), *changes]), MIXTURE: mixture_M},
            {MIXTURE: mixture_M},
        )

    def _mix_logits(self, logits: "list[Tensor]") -> "Tensor":
        """Compute log sum_k pi_k softmax(logits_k)."""
        import torch

        stacked = torch.stack([each.log_softmax(1) for each in logits])
        return torch.logsumexp(stacked + self._mixture_M.log()[:, None, None], 0)


class FedEMSettings(Settings):
    """Number of the models that are mixed."""

    num_models: Annotated[int, Field(ge=1, le=100, strict=True)] = 3
    """K: the number of models, and so of the distributions that clients mix."""


class FedEM(Algorithm):
    """Models that are each averaged over all clients; the partition is by the largest pi of a client.

    Each model has BatchNorm statistics of its own, which are averaged with it. Losses are per image and
    cross-entropies, so that a data set with numbers to predict is refused.

    Sends: A sampled client gets K models and returns their changes and K numbers; its training takes K times
    as long as FedAvg's.

    Degenerate cases:

    - With one model it is FedAvg up to rounding.
    - Equal models would stay equal: they start as K independent draws.
    - A weight pi_ik that has fallen to 0 stays 0.

    Absent clients: A client that is away keeps its pi, and is tested with it and the newest models.

    Memory: Clients remember pi; the server has the K models alone.
    """

    settings: FedEMSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm: clients train by a rule, on classes."""
        return Traits(trains_plainly=False, by_class=True)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Draw independent models."""
        models = tuple(fresh(number) for number in range(self.settings.num_models))
        return State(models, np.zeros(num_clients, np.int64))

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client the first model, and the others as the payload."""
        payload = {OTHERS: np.stack(state.models)[1:]}
        return [Order(client, (0,), rule=MixtureRule(), payload=payload) for client in present.sampled]

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Average the changes of each model; label the clients."""
        changes = [updates.mean()]
        if len(state.models) > 1:
            [others] = updates.means([updates.clients], output=CHANGES)
            changes += np.split(others, len(state.models) - 1)
        models = tuple(model + change for model, change in zip(state.models, changes, strict=True))
        return replace(self.place(state, updates), models=models), Diagnostics(clustered=True)

    def place(self, state: State, updates: Updates) -> State:
        """Label the clients of `updates` by their largest pi."""
        # `outputs` would train the clients again where the round comes from the cache.
        largest = updates.derived(MIXTURE, "largest", lambda each: {"at_N": np.stack(each).argmax(axis=1)})
        labels_K = state.labels_K.copy()
        labels_K[list(updates.clients)] = largest["at_N"]
        return replace(state, labels_K=labels_K)

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its mixture of the models."""
        adaptation = Adaptation(MixtureRule(), payload={OTHERS: np.stack(state.models)})
        return Served(state.models, state.labels_K, adaptation)


ALGORITHMS = [
    AlgorithmEntry(
        name="fedem",
        title="FedEM",
        summary="each client has a mixture of models that all clients train",
        source="Marfoq et al. 2021, arXiv:2108.10252",
        algorithm=FedEM,
        settings=FedEMSettings(),
        search={"num_models": [2, 3, 4]},
        bibtex=BIBTEX,
    )
]
