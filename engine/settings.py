"""The parts of a run's configuration that data sets and training need; `run_config` puts them together."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedgrid.algorithms.contract.section import Section

PositiveInt = Annotated[int, Field(gt=0, strict=True)]
ClassLabel = Annotated[int, Field(ge=0, strict=True)]


class Split(Section):
    """How a data set is dealt out to clients; the defaults are the papers'."""

    num_clusters: PositiveInt = 3
    """Hidden groups of clients; of overlap majority 2."""
    draws: PositiveInt | None = None
    """Draws with replacement a client; None is floor(pool size / clients), the published rule. Of overlap
    majority the images of a client, none of them another's; None is as many as there are."""
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of a client's images that is its test set, rounded up."""
    alpha: Annotated[float, Field(gt=0)] = 1.0
    """Concentration of the symmetric Dirichlet that draws an imbalanced cluster's class shares."""
    proportions: Literal["drawn", "published"] = "drawn"
    """Class shares of imbalanced clusters: drawn with the run's seed, or those of the published scenario."""
    test_leakage: Literal["published", "none"] = "published"
    """`published`: clients draw independently, so about half of a client's test images are in another
    client's training set. `none`: no test image of any client is in any client's training set."""
    server_images: PositiveInt | None = None
    """Images of the server's test set, the first of a seeded order; None is the whole official test set."""
    majority: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of overlap majority: the share of a client's images that is of its own class."""
    first_group: tuple[ClassLabel, ...] | None = None
    """Of overlap majority: the classes of one hidden group, the others being of the other; None is what
    `engine.partition.groups` says of the data set."""
    scored_on: Literal["test", "validation"] = "test"
    """`validation`: a client's training images are cut once more by `test_share`, and it is scored on the
    second part. Its test images are not used at all, which is what a search needs."""

    later = ("majority", "first_group", "scored_on")


class Training(Section):
    """What a client does in a round (Table 3 of the OCFL papers gives the values per data set)."""

    rounds: PositiveInt
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


class Evaluation(Section):
    """When models are tested."""

    every: PositiveInt = 1
    """Test in every n-th round and in the last; clustering does not need tests."""
