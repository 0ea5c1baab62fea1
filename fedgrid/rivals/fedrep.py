"""FedRep: a common body, and a head of its own for each client.

Source: Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated
Learning, ICML 2021, arXiv:2102.07078, Algorithm 1, and the authors' code (lgcollins/FedRep). With the body
phi, all layers before the head, and the client's head h_i, a client

1. receives phi and puts h_i on it,
2. trains h_i for `head_epochs` epochs with phi fixed,
3. trains phi for the other `training.local_epochs` with h_i fixed, and
4. sends phi, which the server averages.

With `together` steps 2 and 3 are one: phi and h_i are trained at once, in all epochs. That is FedPer
(Arivazhagan, Aggarwal, Singh, Choudhary, Federated Learning with Personalization Layers, 2019,
arXiv:1912.00818), the entry `fedper`.

The head is the module that the model's entry names. Each of the steps 2 and 3 has an optimizer of the run's
kind to itself, so that momentum and decay move nothing that is fixed, and only the gradient of the part that
trains is clipped. BatchNorm's statistics belong to the part that their layer is in; those of the body follow
the images in step 2 too, where its weights are fixed. A client is tested with its own head on the common body
as it was just averaged.

Deviations: means are weighted by the run's `weights`, where the authors weigh clients alike on some data
sets. There is no last round of head epochs before the test, which the authors' figures have: so tests are
those of every round. All heads start from the common initial model.
"""

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from fedgrid import (
    AlgorithmEntry,
    Conditions,
    FedOpt,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    OwnAdaptationSettings,
    State,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{collins2021exploiting,
  author = {Collins, Liam and Hassani, Hamed and Mokhtari, Aryan and Shakkottai, Sanjay},
  title = {Exploiting Shared Representations for Personalized Federated Learning},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2021},
  eprint = {2102.07078},
  archiveprefix = {arXiv}
}"""
FEDPER_BIBTEX = r"""@misc{arivazhagan2019federated,
  author = {Arivazhagan, Manoj Ghuhan and Aggarwal, Vinay and Singh, Aaditya Kumar and Choudhary, Sunav},
  title = {Federated Learning with Personalization Layers},
  year = {2019},
  eprint = {1912.00818},
  archiveprefix = {arXiv}
}"""


class HeadThenBody(LocalRule):
    """Trains the head in the first epochs and the body in the others."""

    head_epochs: int

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client."""
        return _HeadThenBody(self.head_epochs, local)


class _HeadThenBody(LocalSteps):
    """Trains one part of a client's model at a time."""

    def __init__(self, head_epochs: int, local: LocalModel) -> None:
        self._head_epochs = head_epochs
        self._head_W = local.mask(local.layout.ranges(local.layout.head_layers))

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take a step of the part whose turn it is, by that part's optimizer."""
        is_head = local.epoch_index < self._head_epochs
        trains_W = self._head_W if is_head else ~self._head_W
        logits = local.logits(images)
        gradient_W = local.gradient(local.loss(logits, labels)).mul_(trains_W)
        before_W = local.weights.clone()
        local.optimizer("head" if is_head else "body").descend(local.weights, gradient_W)
        # Weight decay has moved the other part.
        local.weights.copy_(local.weights.where(trains_W, before_W))
        return logits.detach()


class FedRepSettings(OwnAdaptationSettings):
    """Settings of FedRep: whether, and for how long, the head trains by itself."""

    head_epochs: Annotated[int, Field(ge=1, strict=True)] = 1
    """First ones of `training.local_epochs`, which train the head; the others train the body. The authors
    take 10 of 11."""
    together: bool = False
    """Whether head and body are trained at once in all epochs, as in FedPer, and not the head first."""

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        """Refuse a number of head epochs where there are none."""
        if self.together and self.head_epochs != 1:
            raise ValueError(
                f"head_epochs = {self.head_epochs}: with together the head trains in all; leave one out"
            )
        return self


class FedRep(FedOpt):
    """FedOpt on the body; each client's head is in its memory (`LocalRule.personal`).

    Sends: The body, both ways.

    Degenerate cases:

    - A model without a head is refused, and so is FedRep without an epoch for the body.
    - Where the head is the whole model, each client trains alone: FedPer is SOLO, FedRep SOLO with
      `head_epochs` epochs.
    - The server has no head, so there is no test on the server's images: those scores are missing.

    Absent clients: A client that is away keeps its head and is tested with it on the new body. One that has
    not trained yet has the initial head. A held-out client is tested after a training of its own.
    """

    settings: FedRepSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a model without a head, and to train no body."""
        if problem := conditions.lacks_head():
            return problem
        given, needed = conditions.training["local_epochs"], self.settings.head_epochs + 1
        if given < needed and not self.settings.together:
            return (
                f"training.local_epochs = {given} leaves none for the body after head_epochs = {needed - 1}; "
                f"set training.local_epochs to {needed} or more, or together: true"
            )
        return super().problem(conditions)

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule by which the head, its buffers too, is the client's."""
        head = tuple(layout.ranges(layout.head_layers))
        if self.settings.together:
            return LocalRule(personal=head)
        return HeadThenBody(personal=head, head_epochs=self.settings.head_epochs)

    def global_model(self, state: State) -> None:
        """Return none: the server has no head, so no whole model."""


ALGORITHMS = [
    AlgorithmEntry(
        name="fedrep",
        title="FedRep",
        summary="a common body, under which each client trains a head of its own first",
        source="Collins et al. 2021, arXiv:2102.07078",
        algorithm=FedRep,
        settings=FedRepSettings(),
        bibtex=BIBTEX,
        search={"head_epochs": [1, 2]},
    ),
    AlgorithmEntry(
        name="fedper",
        title="FedPer",
        summary="a common body and a head of its own for each client, trained together",
        source="Arivazhagan et al. 2019, arXiv:1912.00818",
        algorithm=FedRep,
        settings=FedRepSettings(together=True),
        bibtex=FEDPER_BIBTEX,
    ),
]
