"""APFL: each client is served a mixture of a model of its own and the common one, and trains both.

Source: Deng, Kamani, Mahdavi, Adaptive Personalized Federated Learning, 2020, arXiv:2003.13461, Algorithm 1
(from memory). With w the client's copy of the common model, v its own model, f its loss, alpha its share of v
and eta `training.learning_rate`, it does for each batch of a round:

1. w <- w - eta grad f(w);
2. the mixture is m = alpha v + (1 - alpha) w, with the new w;
3. v <- v - eta alpha grad f(m);
4. if `adaptive`, alpha <- alpha - eta (v - w) . grad f(m), with the v and w of step 2, cut to [0, 1].

It sends the change of w, and the server averages these: the common model is FedAvg's to the bit, whatever
alpha is. A client is tested with the mixture of v, alpha and w as its last training left them; on the
server's images the common model is tested.

The paper mixes weights, and so does this; the authors' code (FedTorch) mixes outputs, and learns alpha once a
round and with weight decay.

Deviations: v starts from the first common model that the client receives; alpha goes on from round to round.
The server weighs clients by the run's `weights`. v takes steps of the run's kind of optimizer, which has a
state of its own; those of alpha are plain.

The mixture has BatchNorm statistics of its own, which its own passes measure; they go on from round to round.

Shapes: W entries of a state vector that are parameters, P of the whole.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar

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

BIBTEX = r"""@misc{deng2020adaptive,
  author = {Deng, Yuyang and Kamani, Mohammad Mahdi and Mahdavi, Mehrdad},
  title = {Adaptive Personalized Federated Learning},
  year = {2020},
  eprint = {2003.13461},
  archiveprefix = {arXiv}
}"""
OWN, MIXTURE, ALPHA = "own", "mixture", "alpha"
"""Names in a client's memory: v with the mixture's buffers, float32, shape (P,); the mixture, as it is
tested, likewise; alpha, float32, shape (1,)."""


class MixtureRule(LocalRule):
    """Trains the common model, and the client's own through the mixture; before a test it puts that in
    place."""

    remembers: ClassVar[tuple[str, ...]] = (OWN, MIXTURE, ALPHA)
    is_cached: ClassVar[bool] = False  # A client remembers whole models.
    alpha: float
    adaptive: bool

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        if not local.is_adapting:
            return _MixtureSteps(self, local)
        if MIXTURE in local.memory:
            local.load(local.memory[MIXTURE])
        return LocalSteps()


class _MixtureSteps(LocalSteps):
    """The client's own model with the mixture's buffers, its share, and the optimizer that trains it."""

    def __init__(self, rule: MixtureRule, local: LocalModel) -> None:
        self._adaptive = rule.adaptive
        self._own_P = local.tensor(local.memory[OWN]) if OWN in local.memory else local.snapshot()
        # On the device, so that no step waits for it.
        alpha = local.memory[ALPHA][0] if ALPHA in local.memory else rule.alpha
        self._alpha = local.weights.new_tensor(alpha)
        self._optimizer = local.optimizer(OWN)

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take a step of the common model, then of the own one and of its share; called for each batch."""
        logits = local.step(images, labels, self)
        common_W = local.weights.clone()
        alpha = self._alpha
        with local.substitute(self._own_P):
            own_W = local.weights.clone()
            local.weights.copy_(common_W.lerp(own_W, alpha))
            gradient_W = local.gradient(local.loss(local.logits(images), labels))
            if self._adaptive:
                slope = (own_W - common_W) @ gradient_W
                self._alpha = (alpha - local.learning_rate * slope).clamp(0, 1)
            self._optimizer.descend(own_W, gradient_W.mul_(alpha))
            local.weights.copy_(own_W)
            self._own_P = local.snapshot()
        return logits

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the own model, the mixture and its share for the next training and the tests."""
        mixture_P = self._own_P.clone()
        size = len(local.weights)
        mixture_P[:size] = local.weights.lerp(self._own_P[:size], self._alpha)
        states = {OWN: local.vector(self._own_P), MIXTURE: local.vector(mixture_P)}
        return Finished(memory={**states, ALPHA: self._alpha.reshape(1).cpu().numpy()})


class ApflSettings(OwnAdaptationSettings):
    """Settings of APFL: the mixture."""

    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the client's own model, with `adaptive` at first; 0 is FedAvg's model after local training, 1
    is local training."""
    adaptive: bool = False
    """Whether each client learns its share, by a step of the run's learning rate for each batch."""


class Apfl(FedOpt):
    """FedOpt on the common model; each client is tested with its mixture.

    Sends: What FedAvg sends: the common model both ways.

    Degenerate cases:

    - `alpha: 0` serves FedAvg's common model as the client's last training left it.
    - `alpha: 1` is local training from the first model that a client receives, in the rounds that sample it.

    Absent clients: A client that is away keeps its mixture, and is tested with it. One that has not trained
    yet is tested with the common model. A held-out client trains once, from the common model.

    Memory: That of FedOpt. A client keeps two models.
    """

    settings: ApflSettings

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule of all rounds and tests."""
        return MixtureRule(alpha=self.settings.alpha, adaptive=self.settings.adaptive)


ALGORITHMS = [
    AlgorithmEntry(
        name="apfl",
        title="APFL",
        summary="each client is served a mixture of its own model and the common one",
        source="Deng et al. 2020, arXiv:2003.13461",
        algorithm=Apfl,
        settings=ApflSettings(),
        search={"alpha": {"low": 0.1, "high": 0.9}, "adaptive": [False, True]},
        bibtex=BIBTEX,
    )
]
