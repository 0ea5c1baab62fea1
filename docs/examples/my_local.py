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
        """Return the focal loss in place of cross-entropy."""
        log_share_N = logits.log_softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
        loss = -((1 - log_share_N.exp()) ** self.gamma * log_share_N).mean()
        self.losses.append(loss.detach())
        return loss

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Return the losses for the records."""
        return Finished(outputs={"focal_loss": local.weights.new_tensor(self.losses).cpu().numpy()})


class FocalRule(LocalRule):
    """Travels with an order to the client."""

    outputs: ClassVar[tuple[str, ...]] = ("focal_loss",)
    public: ClassVar[tuple[str, ...]] = (
        "focal_loss",
    )  # A record of the experiment, which no uplink changes.
    gamma: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Return the hooks of a client's training in a round."""
        return FocalSteps(self.gamma)


class Focal(LocalMethod):
    """Values of `local`: `{name: focal, gamma: 2}`."""

    name: Literal["focal"] = "focal"
    gamma: float = 2.0
    numbers: ClassVar[tuple[OwnNumber, ...]] = (OwnNumber("focal_loss", "Mean focal loss of a batch."),)

    def rule(self) -> LocalRule:
        """Return the rule of every order."""
        return FocalRule(gamma=self.gamma)


LOCAL_METHODS = [Focal]
