"""FedProto: prototypes travel, the mean features of each class, and no model does.

Source: Tan, Long, Liu, Zhou, Lu, Jiang, Zhang, FedProto: Federated Prototype Learning across Heterogeneous
Clients, AAAI 2022, arXiv:2105.00243, Algorithm 1, and the authors' code: features are gathered in the last
epoch, while the weights move; the server takes plain means over the clients that have a class; a client is
tested by the nearest prototype among the classes that it trains on, by its head until there are any.

Shapes: N images of a batch, L classes, F features, P entries of a state vector.
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
    Payload,
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
PROTOTYPES, HAS_PROTOTYPE, MODEL_SIZE = "prototypes", "known", "model_size"
"""Arrays of the state: prototypes, float32, shape (L, F); classes that have one, bool, shape (L,); P."""
SUMS, COUNTS = "sums", "counts"


class ProtoRule(LocalRule):
    """Pulls features to the prototype of their class; sends their sums and counts by class."""

    outputs: ClassVar[tuple[str, ...]] = (SUMS, COUNTS)
    sees_features: ClassVar[bool] = True
    is_cached: ClassVar[bool] = False  # A client remembers its whole model.
    pull: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        return _Proto(self.pull, local)


class _Proto(LocalSteps):
    """Sums of one client's features by class, and the prototypes that pull them."""

    def __init__(self, pull: float, local: LocalModel) -> None:
        import torch

        self._pull, self._local = pull, local
        arrays = (np.array(local.payload[name]) for name in (PROTOTYPES, HAS_PROTOTYPE))
        self._prototypes_LF, self._has_prototype_L = (
            torch.from_numpy(array).to(local.weights.device) for array in arrays
        )
        self._sums_LF = torch.zeros_like(self._prototypes_LF)
        self._counts_L = torch.zeros_like(self._prototypes_LF[:, 0])

    def penalty(self, logits: "Tensor", labels: "Tensor", images: "Tensor") -> "Tensor | None":
        """Compute the mean squared distance of features to their prototypes; of unknown ones it is 0."""
        features_NF = self._local.features
        if self._local.epoch_index == self._local.num_epochs - 1:
            self._sums_LF.index_add_(0, labels, features_NF.detach())
            self._counts_L += labels.bincount(minlength=len(self._counts_L))
        offsets_NF = (features_NF - self._prototypes_LF[labels]) * self._has_prototype_L[labels, None]
        return self._pull * offsets_NF.square().mean()

    def test(self, local: LocalModel, images: "Tensor") -> "Tensor":
        """Compute minus the squared distances to the prototypes, as logits."""
        import torch

        logits = local.logits(images)
        own_L = torch.zeros_like(self._has_prototype_L)
        for _, labels in local.examples():
            own_L[labels] = True
        usable_L = own_L & self._has_prototype_L
        distances_NL = torch.cdist(local.features, self._prototypes_LF).square()
        return (-distances_NL).masked_fill(~usable_L, -1e9) if usable_L.any() else logits

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the sums and counts of which the server makes prototypes."""
        return Finished({SUMS: self._sums_LF.cpu().numpy(), COUNTS: self._counts_L.cpu().numpy()})


class FedProtoSettings(Settings):
    """Strength of the pull to the prototypes."""

    pull: Annotated[float, Field(ge=0)] = 1.0
    """lambda; with 0 every client trains alone."""


class FedProto(Algorithm):
    """Each client keeps its model; the server averages prototypes."""

    settings: FedProtoSettings

    @property
    def traits(self) -> Traits:
        """Clients train by a rule."""
        return Traits(trains_plainly=False)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a model without features, or with a head that is more than a linear layer."""
        if problem := conditions.lacks_head():
            return problem
        if len(_head_shapes(conditions.layout)) != 1:
            return f"the head '{conditions.layout.head}' is no linear layer; name the last one in head="
        return super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Begin without prototypes, with the model that all clients start from."""
        [shape] = _head_shapes(layout)
        arrays = {
            PROTOTYPES: np.zeros(shape, np.float32),
            HAS_PROTOTYPE: np.zeros(shape[0], bool),
            MODEL_SIZE: np.array([layout.size]),
        }
        return State((fresh(0),), np.zeros(num_clients, np.int64), arrays)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client the prototypes."""
        rule, payload = self._rule(state), _payload(state)
        return [Order(client, (0,), rule=rule, payload=payload) for client in present.sampled]

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Average the clients' prototypes of each class; a class that no client has keeps its own."""
        sums, counts = np.stack(updates.outputs(SUMS)), np.stack(updates.outputs(COUNTS))
        means = sums / np.maximum(counts, 1)[:, :, None]
        having_L = (counts > 0).sum(axis=0)
        mean_LF = means.sum(axis=0) / np.maximum(having_L, 1)[:, None]
        is_new_L = having_L > 0
        prototypes_LF = np.where(is_new_L[:, None], mean_LF, state.arrays[PROTOTYPES]).astype(np.float32)
        has_prototype_L = state.arrays[HAS_PROTOTYPE] | is_new_L
        return state.keep(**{PROTOTYPES: prototypes_LF, HAS_PROTOTYPE: has_prototype_L}), Diagnostics()

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its own model, by the prototypes."""
        return Served(state.models, state.labels_K, Adaptation(self._rule(state), payload=_payload(state)))

    def _rule(self, state: State) -> LocalRule:
        return ProtoRule(pull=self.settings.pull, personal=((0, int(state.arrays[MODEL_SIZE][0])),))


def _head_shapes(layout: Layout) -> list[tuple[int, ...]]:
    """List the shapes of the head's kernels, (L, F) of a linear layer."""
    tensors = ((name.rpartition(".")[0], shape) for name, _, shape in layout.slices())
    return [shape for layer, shape in tensors if layer in layout.head_layers and len(shape) > 1]


def _payload(state: State) -> Payload:
    return {name: state.arrays[name] for name in (PROTOTYPES, HAS_PROTOTYPE)}


ALGORITHMS = [
    AlgorithmEntry(
        name="fedproto",
        title="FedProto",
        summary="prototypes of classes travel, no model",
        source="Tan et al. 2022, arXiv:2105.00243",
        algorithm=FedProto,
        settings=FedProtoSettings(),
        bibtex=BIBTEX,
    )
]
