"""The sections `training` and `evaluation` of a run's configuration."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section


class LocalTraining(Section):
    """What a client does in a round (Table 3 of the OCFL papers gives the values per data set)."""

    local_epochs: PositiveInt = 3
    batch_size: PositiveInt
    optimizer: Literal["sgd", "adam"]
    learning_rate: Annotated[float, Field(gt=0)]
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of SGD."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """L2 penalty added to the gradient, as `torch.optim` does it."""
    keep_optimizer_state: bool = False
    """Whether a client's momentum or Adam moments last from round to round; fresh ones otherwise."""

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> Self:
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum = {self.momentum:g} is of optimizer sgd, not of {self.optimizer}")
        return self


class Training(LocalTraining):
    """The section `training`: what a client does in a round, and how many rounds there are."""

    rounds: PositiveInt

    @property
    def local(self) -> LocalTraining:
        """What clients need to know: all but the number of rounds."""
        return LocalTraining(**self.model_dump(exclude={"rounds"}))


class Evaluation(Section):
    """When models are tested."""

    every: PositiveInt = 1
    """Test in every n-th round and in the last; clustering does not need tests."""
