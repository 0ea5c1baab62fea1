"""The section `split` of a run's configuration."""

from typing import Annotated, Literal

from pydantic import Field

from fedgrid.algorithms.contract.section import PositiveInt, Section

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

    reference_images: PositiveInt | None = None
    """Images of the official test set that the server keeps as reference images, for algorithms that compare
    models by their predictions. They are in no test set. None: none."""

    later = ("majority", "first_group", "scored_on", "reference_images")
