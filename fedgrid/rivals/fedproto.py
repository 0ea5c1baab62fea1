"""FedProto: prototypes travel, the mean features of each class, and no model does.

Source: Tan, Long, Liu, Zhou, Lu, Jiang, Zhang, FedProto: Federated Prototype Learning across Heterogeneous
Clients, AAAI 2022, arXiv:2105.00243, Algorithm 1, and the authors' code (yuetan031/FedProto). The features z
of an image are the inputs of the model's head; P_c is the prototype of class c. In a round a client

1. receives all P_c, none in the first round,
2. trains its own model on cross-entropy + `pull` times the mean of (z - P_y)^2 over the images of a batch and
   the features, where an image of a class without a prototype adds 0, and
3. sends the mean of z over its images of each class that it has, as they were in its last epoch, while the
   weights still moved.

The server's new P_c is the mean of these over the clients that have class c. A client is tested with its own
model: the class of an image is the nearest P_c among the classes that the client trains on. Until one of
these has a prototype, its head is tested. Test losses take minus the squared distances for logits; they are
on another scale than those of other algorithms.

Deviations: means are weighted by the run's `weights`, as in the authors' code where that is `none` (the
paper, from memory, weighs by the number of images of the class). A class that no client of the round has
keeps its P_c. In a round of `training.local_steps` the last epoch may be incomplete.

Shapes: K clients with an update, N images of a batch, L classes, F features.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedgrid import (
    Adaptation,
    Algorithm,
    AlgorithmEntry,
    Conditions,
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

BIBTEX = r"""@inproceedings{tan2022fedproto,
  author = {Tan, Yue and Long, Guodong and Liu, Lu and Zhou, Tianyi and Lu, Qinghua and Jiang, Jing
    and Zhang, Chengqi},
  title = {{FedProto}: Federated Prototype Learning across Heterogeneous Clients},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2022},
  eprint = {2105.00243},
  archiveprefix = {arXiv}
}"""
PROTOTYPES = "prototypes"
"""Prototypes, float32, shape (L, F), a row of zeros for a class without one: in the state from the first step
on, in orders, and in replies."""
FAR = -1e9
"""Logit of a class that is not among the client's own."""


class ProtoRule(LocalRule):
    """Pulls features to the prototype of their class; sends their means by class."""

    outputs: ClassVar[tuple[str, ...]] = (PROTOTYPES,)
    sees_features: ClassVar[bool] = True
    is_cached: ClassVar[bool] = False  # A client remembers its whole model.
    pull: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client."""
        return _ProtoSteps(self.pull, local)


class _ProtoSteps(LocalSteps):
    """Sums one client's features by class, while prototypes pull them."""

    def __init__(self, pull: float, local: LocalModel) -> None:
        import torch

        self._pull, self._local = pull, local
        images, _ = next(local.examples())
        with local.inference():
            num_classes = local.logits(images[:1]).shape[1]
        self._sums_LF = local.weights.new_zeros(num_classes, _read_features(local).shape[1])
        self._counts_L = torch.zeros_like(self._sums_LF[:, 0])
        self._prototypes_LF = torch.zeros_like(self._sums_LF)
        if PROTOTYPES in local.payload:
            self._prototypes_LF.copy_(torch.tensor(local.payload[PROTOTYPES]))
        self._has_prototype_L = (self._prototypes_LF != 0).any(-1)

    def penalty(self, logits: "Tensor", labels: "Tensor", images: "Tensor") -> "Tensor":
        """Compute the mean squared distance of features to their prototypes; sum them in the last epoch."""
        features_NF = _read_features(self._local)
        if self._local.epoch_index == self._local.num_epochs - 1:
            self._sums_LF.index_add_(0, labels, features_NF.detach())
            self._counts_L.index_add_(0, labels, features_NF.new_ones(len(labels)))
        offsets_NF = (features_NF - self._prototypes_LF[labels]) * self._has_prototype_L[labels, None]
        return self._pull * offsets_NF.square().mean()

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the prototypes of the classes that the client has."""
        means_LF = self._sums_LF / self._counts_L.clamp(min=1)[:, None]
        return Finished({PROTOTYPES: means_LF.cpu().numpy()})

    def test(self, local: LocalModel, images: "Tensor") -> "Tensor":
        """Compute minus the squared distances to the prototypes of the client's own classes, as logits."""
        import torch

        logits = local.logits(images)
        is_own_L = torch.zeros_like(self._has_prototype_L)
        for _, labels in local.examples():
            is_own_L[labels] = True
        usable_L = is_own_L & self._has_prototype_L
        if not usable_L.any():
            return logits
        distances_NL = torch.cdist(_read_features(local), self._prototypes_LF).square()
        return (-distances_NL).masked_fill(~usable_L, FAR)


def _read_features(local: LocalModel) -> "Tensor":
    """Read the features of the last forward pass, a row for each image."""
    return local.features.flatten(1)


class FedProtoSettings(Settings):
    """Strength of the pull to the prototypes."""

    pull: Annotated[float, Field(ge=0)] = 1.0
    """lambda; with 0 every client trains alone."""


class FedProto(Algorithm):
    """Each client keeps its model (`LocalRule.personal`); the server averages prototypes.

    All clients start from the common initial model, and have the one architecture of the run.

    Sends: A prototype of each class both ways, zeros where there is none: L F numbers of four bytes.

    Degenerate cases:

    - With `pull: 0` every client trains as in SOLO, to the byte; its test is by prototypes.
    - A model without a head and data with numbers to predict are refused.
    - A class that no client has trained on is never predicted, nor is one that the client itself lacks.
    - With noise in the `uplink` every client seems to have every class.
    - The server has no model, so there is no test on the server's images: those scores are missing.

    Absent clients: Prototypes are those of the clients that are present; a client that is away is tested with
    its own model by the new ones. One that has not trained yet has the initial model. A held-out client is
    tested after a training of its own, and adds nothing to the prototypes.

    Memory: The prototypes: float32, shape (L, F). Clients remember their model, with its BatchNorm
    statistics.
    """

    settings: FedProtoSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm: clients train by a rule that needs classes."""
        return Traits(trains_plainly=False, by_class=True)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a model without a head, the inputs of which are the features."""
        return conditions.lacks_head() or super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Begin without prototypes, with the model that all clients start from."""
        return State((fresh(0),), np.zeros(num_clients, np.int64))

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client the prototypes, once there are any."""
        rule = self._build_rule(layout)
        return [Order(client, (0,), rule=rule, payload=state.arrays) for client in present.sampled]

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Average the clients' prototypes of each class; a class that no client has keeps its own."""
        means_KLF = np.stack(updates.outputs(PROTOTYPES)).astype(np.float64)
        weights = updates.weights or dict.fromkeys(updates.clients, 1.0)
        shares_KL = (means_KLF != 0).any(-1) * np.array([[weights[client]] for client in updates.clients])
        sums_LF = np.einsum("kl,klf->lf", shares_KL, means_KLF)
        total_L1 = shares_KL.sum(axis=0)[:, None]
        before_LF = state.arrays.get(PROTOTYPES, np.zeros_like(sums_LF))
        prototypes_LF = np.where(total_L1 > 0, sums_LF / np.where(total_L1 > 0, total_L1, 1), before_LF)
        return state.keep(**{PROTOTYPES: prototypes_LF.astype(np.float32)}), Diagnostics()

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its own model, by the prototypes."""
        adaptation = Adaptation(self._build_rule(layout), payload=state.arrays)
        return Served(state.models, state.labels_K, adaptation)

    def _build_rule(self, layout: Layout) -> ProtoRule:
        """Build the rule by which the whole model is the client's."""
        return ProtoRule(pull=self.settings.pull, personal=((0, layout.size),))


ALGORITHMS = [
    AlgorithmEntry(
        name="fedproto",
        title="FedProto",
        summary="prototypes of classes travel, no model",
        source="Tan et al. 2022, arXiv:2105.00243",
        algorithm=FedProto,
        settings=FedProtoSettings(),
        bibtex=BIBTEX,
        search={"pull": [0.1, 1.0, 10.0]},
    )
]
