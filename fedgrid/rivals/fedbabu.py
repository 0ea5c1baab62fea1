"""FedBABU: the body learns under a head that never changes; clients fine-tune both before a test.

Source: Oh, Kim, Yun, FedBABU: Towards Enhanced Representation for Federated Image Classification, ICLR 2022,
arXiv:2106.06042, Algorithm 1, and the authors' code (jhoon-oh/FedBABU). The head, the module that the model's
entry names, is drawn once and the same for all. In a round a client

1. receives the body, all layers before the head,
2. trains it by the run's optimizer with the head fixed, and
3. sends it; the server averages the bodies.

Before a test a client takes `fine_tune` steps of the run's optimizer, a batch each, on body and head
together; nothing of them is sent or remembered. With 0 steps the common model is tested, which the paper
calls initial. The fixed head counts neither for the norm that `training.clip_gradient` limits nor for weight
decay. BatchNorm's statistics belong to the body; in a test they are those that fine-tuning leaves.

Deviations: means are weighted by the run's `weights`, where the paper takes plain means. The authors
fine-tune for 5 epochs, once, after the last round; here it is a number of steps, in every tested round.
"""

from typing import TYPE_CHECKING

from fedgrid import (
    AlgorithmEntry,
    Conditions,
    FedOpt,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    OwnRuleSettings,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{oh2022fedbabu,
  author = {Oh, Jaehoon and Kim, Sangmook and Yun, Se-Young},
  title = {{FedBABU}: Towards Enhanced Representation for Federated Image Classification},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2022},
  eprint = {2106.06042},
  archiveprefix = {arXiv}
}"""


class BodyRule(LocalRule):
    """Trains the body under the head that the model has."""

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client."""
        return _BodySteps(local)


class _BodySteps(LocalSteps):
    """Keeps the head of one client's model as it is."""

    def __init__(self, local: LocalModel) -> None:
        self.trains: Tensor = ~local.mask(local.layout.ranges(local.layout.head_layers))

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Leave the head out of the gradient, and so of its norm."""
        gradient.mul_(self.trains)


class FedBabu(FedOpt):
    """FedOpt on the body; no head travels, so that nothing, such as noise of the uplink, moves it.

    Sends: The body, both ways.

    Degenerate cases:

    - A model without a head is refused, and so is `training.buffers: local`.
    - Where the head is the whole model, rounds train nothing, and fine-tuning starts from the initial model.
    - On the server's images the common model is tested, under the initial head.

    Absent clients: A client that is away fine-tunes the new body under the initial head like any other, and
    so do one that has not trained yet and one that was held out.
    """

    settings: OwnRuleSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a model without a head, and buffers of the clients' own."""
        if conditions.training.get("buffers") == "local":
            return "training.buffers = local: clients share all that they are tested with; set buffers: mean"
        return conditions.lacks_head() or super().problem(conditions)

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule of all rounds; fine-tuning is plain."""
        # Personal entries do not travel; all clients have the same, those of the initial model.
        return BodyRule(personal=tuple(layout.ranges(layout.head_layers)))


ALGORITHMS = [
    AlgorithmEntry(
        name="fedbabu",
        title="FedBABU",
        summary="the body learns under a fixed head; clients fine-tune both before a test",
        source="Oh et al. 2022, arXiv:2106.06042",
        algorithm=FedBabu,
        settings=OwnRuleSettings(fine_tune=45),
        bibtex=BIBTEX,
        search={"fine_tune": [15, 45, 90]},
    )
]
