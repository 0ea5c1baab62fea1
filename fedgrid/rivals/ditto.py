"""Ditto: each client trains a model of its own beside the common one, and pulls it towards that.

Source: Li, Hu, Beirami, Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021,
arXiv:2012.04221, Algorithm 1, with the batches of the authors' code. With w the common model that a client
receives, v its own model, f its loss, eta `training.learning_rate` and lambda `pull`, it takes two steps on
each batch of a round:

1. v <- v - eta (grad f(v) + lambda (v - w)), where w stays as it was received;
2. w' <- w' - eta grad f(w'), where w' starts from w.

It sends w' - w, and the server averages these: w is FedAvg's to the bit, whatever lambda is. A client is
tested with its v, as its last training left it; on the server's images w is tested.

Deviations: v starts from the first w that the client receives, where the authors start it from the initial
model; with all clients in round 1 these are the same. The server weighs clients by the run's `weights`, where
the authors take the plain mean. v takes steps of the run's kind of optimizer, which has a state of its own.

v has BatchNorm statistics of its own, which its own passes measure. A model's dropout leaves out the same
units in both steps.

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

BIBTEX = r"""@inproceedings{li2021ditto,
  author = {Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
  title = {Ditto: Fair and Robust Federated Learning Through Personalization},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2021},
  eprint = {2012.04221},
  archiveprefix = {arXiv}
}"""
OWN = "own"
"""Name in a client's memory of its model v, float32, shape (P,)."""


class DittoRule(LocalRule):
    """Trains the client's own model beside the common one; before a test it puts that in place."""

    remembers: ClassVar[tuple[str, ...]] = (OWN,)
    is_cached: ClassVar[bool] = False  # A client remembers a whole model.
    pull: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        if not local.is_adapting:
            return _DittoSteps(self.pull, local)
        if OWN in local.memory:
            local.load(local.memory[OWN])
        return LocalSteps()


class _DittoSteps(LocalSteps):
    """The client's own model, and the optimizer that trains it."""

    def __init__(self, pull: float, local: LocalModel) -> None:
        self._pull = pull
        self._own_P = local.tensor(local.memory[OWN]) if OWN in local.memory else local.snapshot()
        self._optimizer = local.optimizer(OWN)

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take a step of the client's own model, then one of the common model; called for each batch."""
        with local.substitute(self._own_P):
            gradient_W = local.gradient(local.loss(local.logits(images), labels))
            gradient_W.add_(local.weights - local.start, alpha=self._pull)
            self._optimizer.descend(local.weights, gradient_W)
            self._own_P = local.snapshot()
        return local.step(images, labels, self)

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the client's own model for its next training and its tests."""
        return Finished(memory={OWN: local.vector(self._own_P)})


class DittoSettings(OwnAdaptationSettings):
    """Settings of Ditto: how strongly the clients' own models are pulled towards the common one."""

    pull: Annotated[float, Field(ge=0)] = 1.0
    """lambda; 0 is local training. The authors try 0.1, 1 and 2. Times the learning rate it has to be below
    2, else SGD diverges."""


class Ditto(FedOpt):
    """FedOpt on the common model; each client is tested with its own.

    Sends: What FedAvg sends: the common model both ways.

    Degenerate cases:

    - `pull: 0` is local training from the first model that a client receives, in the rounds that sample it.
    - `pull` of 1 / `training.learning_rate` makes each step of v one from w: v = w - eta grad f(v).

    Absent clients: A client that is away keeps its own model, and is tested with it. One that has not trained
    yet is tested with the common model. A held-out client trains once, from the common model.

    Memory: That of FedOpt. A client keeps one model.
    """

    settings: DittoSettings

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule of all rounds and tests."""
        return DittoRule(pull=self.settings.pull)


ALGORITHMS = [
    AlgorithmEntry(
        name="ditto",
        title="Ditto",
        summary="each client trains a model of its own, pulled towards the common one",
        source="Li et al. 2021, arXiv:2012.04221",
        algorithm=Ditto,
        settings=DittoSettings(),
        search={"pull": {"low": 0.01, "high": 2.0, "log": True}},
        bibtex=BIBTEX,
    )
]
