"""FedALA: before it trains, each client mixes the common model into its own, entry by entry.

Source: Zhang, Hua, Wang, Song, Xue, Ma, Guan, FedALA: Adaptive Local Aggregation for Personalized Federated
Learning, AAAI 2023, arXiv:2212.01197, Algorithm 1, and the authors' code (TsingZ0/FedALA). With w the model
received, w_i the client's own as its last training left it and A its mixing weights, which start at 1, a
client

1. takes the lower tensors of w, and for the last `tensors` of them the mixture m = w_i + A (w - w_i), entry
   by entry,
2. learns A on `share` of its images, a random part in a row, in batches of `batch`:
   A <- A - `rate` grad_m f (w - w_i), cut to [0, 1], and m again. The first time it passes the part until the
   losses of the last ten passes have a standard deviation below 0.1, once there are more than ten, or for
   `most_passes`; later it passes it once. The loss of a pass is that of its last batch,
3. trains the mixture, and
4. sends it; the server averages.

A client without a model of its own trains w as it is. A client is tested by its mixture, before any training;
the test and the training after it learn A on the same part. Batches of step 2 see BatchNorm and dropout in
training mode; the statistics of the mixture are those of w. A last batch may be smaller.

Deviations: means are weighted by the run's `weights`, where the paper weighs by images. A client that is away
mixes for its test alone and keeps its w_i and A, where the authors' clients mix in every round. The part has
at least one image. There is a limit to the passes, which the authors lack.

Shapes: W entries of a state vector that are parameters, P of the whole, M entries that are mixed.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgrid import (
    AlgorithmEntry,
    FedOpt,
    Finished,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    OwnAdaptationSettings,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{zhang2023fedala,
  author = {Zhang, Jianqing and Hua, Yang and Wang, Hao and Song, Tao and Xue, Zhengui and Ma, Ruhui and
    Guan, Haibing},
  title = {{FedALA}: Adaptive Local Aggregation for Personalized Federated Learning},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2023},
  eprint = {2212.01197},
  archiveprefix = {arXiv}
}"""
OWN, MIXING = "own", "mixing"
"""What a client remembers: the last tensors of w_i, and A from its second training on, (M,) each."""
NUM_LOSSES, LEAST_DEVIATION = 10, 0.1
"""A is learnt once the losses of so many passes have a smaller standard deviation."""


class MixingRule(LocalRule):
    """Mixes, then trains plainly; without steps it only mixes."""

    remembers: ClassVar[tuple[str, ...]] = (OWN, MIXING)
    tensors: int
    rate: float
    share: float
    batch: int
    most_passes: int

    def start(self, local: LocalModel) -> LocalSteps:
        """Put the mixture in place; a client's first model is taken as it is."""
        parameters = [where for _, where, _ in local.layout.slices() if where.stop <= len(local.weights)]
        first = parameters[-self.tensors :][0].start
        if OWN not in local.memory:
            return _MixtureMemory(first, {})
        mixing_W = _mix_models(self, local, first)
        return _MixtureMemory(first, {MIXING: local.vector(mixing_W)[first:]})


class _MixtureMemory(LocalSteps):
    """Remembers what the next mixture of one client is made of."""

    def __init__(self, first: int, memory: dict[str, NDArray[np.float32]]) -> None:
        self._first = first
        self._memory = memory

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the last tensors of the trained model, and A."""
        return Finished(memory={OWN: local.vector(local.weights)[self._first :], **self._memory})


def _mix_models(rule: MixingRule, local: LocalModel, first: int) -> "Tensor":
    """Learn A, and replace the model by the mixture.

    Args:
        rule: the settings.
        local: the model received.
        first: position in the state vector of the first entry that is mixed; all parameters after it are.

    Returns:
        A, shape (W,), in the order of `local.weights`, 1 where nothing is mixed.
    """
    # Mixed with itself, a lower entry stays as it is.
    own = local.vector(local.weights)
    own[first:] = local.memory[OWN]
    mixing = np.ones_like(own)
    mixing[first:] = local.memory.get(MIXING, 1.0)
    mixing_W, received_P = local.tensor(mixing), local.snapshot()
    received_W = received_P[: len(local.weights)]
    apart_W = received_W - local.tensor(own)
    is_first = MIXING not in local.memory
    batches = local.batches(rule.share, rule.batch)
    losses: list[float] = []
    # In this form A = 1 gives the model received to the bit.
    local.weights.copy_(received_W - (1 - mixing_W) * apart_W)
    while not losses or (is_first and len(losses) < rule.most_passes and not _is_steady(losses)):
        loss = local.weights.new_zeros(())
        for images, labels in batches:
            loss = local.loss(local.logits(images), labels)
            mixing_W.sub_(local.gradient(loss) * apart_W, alpha=rule.rate).clamp_(0, 1)
            local.weights.copy_(received_W - (1 - mixing_W) * apart_W)
        losses.append(loss.item())
    # The passes have moved BatchNorm's statistics.
    received_P[: len(local.weights)] = local.weights
    local.load(received_P)
    return mixing_W


def _is_steady(losses: list[float]) -> bool:
    """Check whether the losses of the last passes differ little."""
    return len(losses) > NUM_LOSSES and float(np.std(losses[-NUM_LOSSES:])) < LEAST_DEVIATION


class FedAlaSettings(OwnAdaptationSettings):
    """Settings of FedALA: what is mixed, and how the mixing weights are learnt."""

    tensors: Annotated[int, Field(ge=1, strict=True)] = 2
    """Number of last tensors that are mixed, a kernel and its bias being two; all if the model has fewer."""
    rate: Annotated[float, Field(ge=0)] = 1.0
    """eta_A, length of a step of A; 0 is FedAvg."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the client's images on which A is learnt."""
    batch: Annotated[int, Field(ge=1, strict=True)] = 10
    """Images in a batch of these."""
    most_passes: Annotated[int, Field(ge=1, strict=True)] = 100
    """Most passes over these images, the first time that a client learns A."""


class FedAla(FedOpt):
    """FedOpt on the models that clients train from their mixtures; each is tested by its mixture.

    Sends: The whole model, both ways.

    Degenerate cases:

    - With `rate: 0` it is FedAvg to the byte, if the model has no dropout.
    - A client with one image has no batch to learn A on if the model has BatchNorm; its A stays.
    - On the server's images the common model is tested.

    Absent clients: A client that is away mixes the new model into its old one for its test. One that has not
    trained yet is tested with the common model. A held-out client is tested by the mixture of the common
    model and what its one training made of that.
    """

    settings: FedAlaSettings

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule of all rounds and tests."""
        return MixingRule(
            **self.settings.model_dump(include={"tensors", "rate", "share", "batch", "most_passes"})
        )


ALGORITHMS = [
    AlgorithmEntry(
        name="fedala",
        title="FedALA",
        summary="each client mixes the common model into its own, entry by entry, before it trains",
        source="Zhang et al. 2023, arXiv:2212.01197",
        algorithm=FedAla,
        settings=FedAlaSettings(),
        bibtex=BIBTEX,
        search={"tensors": [2, 4], "rate": [0.1, 1.0]},
    )
]
