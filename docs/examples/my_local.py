"""A local method with the focal loss (Lin et al. 2017, arXiv:1708.02002), and its mean in every round."""

from typing import TYPE_CHECKING, ClassVar, Literal

from fedgrid import Finished, LocalMethod, LocalModel, LocalRule, LocalSteps, OwnNumber

if TYPE_CHECKING:
    from torch import Tensor


class FocalSteps(LocalSteps):
    """The loss of a batch, and the losses so far."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.losses: list[Tensor] = []

    def loss(self, local: LocalModel, logits: "Tensor", labels: "Tensor") -> "Tensor":
        """Compute the focal loss in place of cross-entropy; called for each batch."""
        log_share_N = logits.log_softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
        loss = -((1 - log_share_N.exp()) ** self.gamma * log_share_N).mean()
        self.losses.append(loss.detach())
        return loss

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect the losses for the records; called after the last step."""
        return Finished(outputs={"focal_loss": local.weights.new_tensor(self.losses).cpu().numpy()})


class FocalRule(LocalRule):
    """A rule that travels with an order to the client."""

    outputs: ClassVar[tuple[str, ...]] = ("focal_loss",)
    public: ClassVar[tuple[str, ...]] = (
        "focal_loss",
    )  # A record of the experiment, which no uplink changes.
    gamma: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of a client's training in a round."""
        return FocalSteps(self.gamma)


class Focal(LocalMethod):
    """The value `{name: focal, gamma: 2}` of the setting `local`."""

    name: Literal["focal"] = "focal"
    gamma: float = 2.0
    numbers: ClassVar[tuple[OwnNumber, ...]] = (OwnNumber("focal_loss", "Mean focal loss of a batch."),)

    def rule(self) -> LocalRule:
        """Build the rule of every order."""
        return FocalRule(gamma=self.gamma)


LOCAL_METHODS = [Focal]
