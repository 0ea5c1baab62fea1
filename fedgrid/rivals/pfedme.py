"""pFedMe: each client's personal model minimises its loss and a pull to a local model, which follows it.

Source: T. Dinh, Tran, Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020,
arXiv:2006.08848, Algorithm 1, with the inner steps of the authors' code. A client receives the common model
w. From w start, in every round, its local model w_i and its personal model theta. With f its loss, lambda
`pull`, K `inner_steps`, eta_p `inner_rate` and eta `training.learning_rate`, it does for each batch, a local
round of the paper:

1. K times: theta <- theta - eta_p (grad f(theta) + lambda (theta - w_i));
2. w_i <- w_i - eta lambda (w_i - theta).

The client sends w_i - w. The server moves w by beta times the mean of these, where beta is
`server_learning_rate`. A client is tested with theta, as its last training left it; on the server's images w
is tested. The authors' code tests w_i in place of theta, by mistake (its list of personal parameters is the
model's own, which is overwritten before the test): this is `pfedme-as-published`.

theta takes these steps whatever the run's optimizer is: eta_p belongs to lambda. w_i takes steps of the run's
optimizer along lambda (w_i - theta), which are step 2 with plain SGD.

Deviations: only the sampled clients train, where the paper trains all and averages the sampled ones. The
server weighs clients by the run's `weights`; the authors' code does so by numbers of images, adds a weight
decay of 0.001 to step 1, and does not shuffle its batches.

No pass is made with w_i, so that it takes over the BatchNorm statistics that theta's passes measure.

Shapes: W entries of a state vector that are parameters, P of the whole.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

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

BIBTEX = r"""@inproceedings{dinh2020personalized,
  author = {Dinh, Canh T. and Tran, Nguyen H. and Nguyen, Tuan Dung},
  title = {Personalized Federated Learning with {Moreau} Envelopes},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020},
  eprint = {2006.08848},
  archiveprefix = {arXiv}
}"""
OWN = "own"
"""Name in a client's memory of the model that it is tested with, float32, shape (P,)."""
Tested = Literal["personal", "local"]
"""The model that a client is tested with: theta, or w_i."""


class MoreauRule(LocalRule):
    """Trains the personal model, which the local one follows; before a test it puts the former in place."""

    remembers: ClassVar[tuple[str, ...]] = (OWN,)
    is_cached: ClassVar[bool] = False  # A client remembers a whole model.
    pull: float
    inner_steps: int
    inner_rate: float
    tested: Tested

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        if not local.is_adapting:
            return _MoreauSteps(self, local)
        if OWN in local.memory:
            local.load(local.memory[OWN])
        return LocalSteps()


class _MoreauSteps(LocalSteps):
    """The personal model of one client."""

    def __init__(self, rule: MoreauRule, local: LocalModel) -> None:
        self._rule = rule
        self._personal_W = local.weights.clone()

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take K steps of the personal model, then one of the local model; called for each batch."""
        local_W = local.weights.clone()
        local.weights.copy_(self._personal_W)
        passes = []
        for _ in range(self._rule.inner_steps):
            logits = local.logits(images)
            gradient_W = local.gradient(local.loss(logits, labels))
            gradient_W.add_(local.weights - local_W, alpha=self._rule.pull)
            local.weights.sub_(gradient_W, alpha=self._rule.inner_rate)
            passes.append(logits.detach())
        self._personal_W.copy_(local.weights)
        local.weights.copy_(local_W)
        local.descend((local_W - self._personal_W) * self._rule.pull)
        return passes[0]

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the model that the client is tested with."""
        tested_P = local.snapshot()
        if self._rule.tested == "personal":
            tested_P[: len(local.weights)] = self._personal_W
        return Finished(memory={OWN: local.vector(tested_P)})


class PFedMeSettings(OwnAdaptationSettings):
    """Settings of pFedMe: the inner problem, and the model that is tested."""

    pull: Annotated[float, Field(ge=0)] = 15.0
    """lambda; with 0 the common model never moves. Times `training.learning_rate` it is the share of the way
    from w_i to theta that a step of w_i takes."""
    inner_steps: PositiveInt = 5
    """K: steps of theta for each batch."""
    inner_rate: Annotated[float, Field(gt=0)] = 0.05
    """eta_p; the authors take 0.01 to 0.1. Times `pull` it has to be below 2, else theta diverges."""
    tested: Tested = "personal"
    """Model that a client is tested with: theta (`personal`), or w_i (`local`)."""


class PFedMe(FedOpt):
    """FedOpt on the local models; each client is tested with its personal one.

    Sends: What FedAvg sends: the common model both ways.

    Degenerate cases:

    - `pull: 0` leaves the common model as it is; theta is local training from it.
    - `pull` of 1 / `training.learning_rate` makes w_i = theta: with `inner_steps: 1` a batch's step is one of
      SGD at the rate `inner_rate`, which is FedAvg.

    Absent clients: A client that is away keeps the personal model of its last training, and is tested with
    it. One that has not trained yet is tested with the common model. A held-out client trains once, from the
    common model.

    Memory: That of FedOpt. A client keeps one model, for its tests alone.
    """

    settings: PFedMeSettings

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule of all rounds and tests."""
        return MoreauRule(**self.settings.model_dump(include={"pull", "inner_steps", "inner_rate", "tested"}))


PFEDME = AlgorithmEntry(
    name="pfedme",
    title="pFedMe",
    summary="each client's personal model pulls the common one after it",
    source="T. Dinh et al. 2020, arXiv:2006.08848",
    algorithm=PFedMe,
    settings=PFedMeSettings(),
    search={
        "pull": {"low": 1.0, "high": 30.0, "log": True},
        "inner_rate": {"low": 0.005, "high": 0.05, "log": True},
    },
    bibtex=BIBTEX,
)
ALGORITHMS = [
    PFEDME,
    replace(
        PFEDME,
        name="pfedme-as-published",
        title="pFedMe as published",
        summary="pfedme that tests the local model and not the personal one, as the authors' code does",
        settings=PFedMeSettings(tested="local"),
    ),
]
