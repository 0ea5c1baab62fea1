"""The section `split` of a run's configuration."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from fedgrid.algorithms.contract.section import PositiveInt, Section

ClassLabel = Annotated[int, Field(ge=0, strict=True)]


class Split(Section):
    """How a data set is split among clients. Defaults are those of the OCFL papers, without their leakage.

    A plugin's kind of split has further keys: `RunConfig` refuses them with other kinds.
    """

    model_config = ConfigDict(extra="allow")

    kind: str = "nonoverlapping-balanced"
    """Rule by which images are dealt to clients: overlapping-balanced, overlapping-imbalanced,
    nonoverlapping-balanced, nonoverlapping-imbalanced, majority, label-skew, dirichlet, iid, rotated, rolled,
    flipped, swapped, dimmed, noisy, two-levels, continuum, natural, file, centralised or one of a plugin's.
    """
    num_clusters: PositiveInt = 3
    """Number of hidden groups of clients; 2 with split majority, 4 with rotated, rolled, flipped, swapped,
    dimmed, noisy and two-levels; with `sizes` as many as these are. No effect with label-skew, dirichlet,
    iid, continuum, natural and file."""
    draws: PositiveInt | None = None
    """Draws with replacement per client; None is floor(pool size / clients), the published rule. With split
    majority, images per client without replacement; None is as many as possible."""
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of a client's images in its test set, rounded up."""
    alpha: Annotated[float, Field(gt=0)] | None = 1.0
    """Concentration of a symmetric Dirichlet distribution: of an imbalanced cluster's class shares, or of a
    class's shares among clients (dirichlet: 0.1; natural, and groups that change images or labels: None,
    equal shares). Refused with other kinds, with published shares, and with natural where each client has a
    group of its own."""
    proportions: Literal["drawn", "published"] = "drawn"
    """Class shares of imbalanced clusters: drawn with the run's seed, or those of the published scenario.
    Refused with other kinds."""
    test_leakage: Literal["none", "published"] = "none"
    """`none`: no test image of any client is in any client's training set. `published`: clients draw
    independently, so about half of a client's test images are in another client's training set; refused with
    kinds whose clients share no image."""
    server_images: PositiveInt | None = None
    """Size of a seeded subset of the server's test set; None is the whole official test set."""
    majority: Annotated[float, Field(gt=0, le=1)] = 1.0
    """With split majority: the share of a client's images that are of its own class."""
    first_group: tuple[ClassLabel, ...] | None = None
    """With split majority: the classes of the first hidden group, by number, or by name where the data
    set is a folder; None is the data set's default, in `federation.partition.majority`."""
    scored_on: Literal["test", "validation"] = "test"
    """`validation`, for searches: a client's training images are cut again by `test_share`, and the client is
    scored on the second part. Its test images are not used."""

    reference_images: PositiveInt | None = None
    """Images of the official test set that the server keeps as reference images, for algorithms that compare
    models by their predictions. They are in no test set. None: none."""

    labels_share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """With split label-skew: the share of the labels that a client owns."""
    tested_on: Literal["own", "official"] = "own"
    """`own`: `test_share` of a client's images is its test set. `official`: a client trains on all its images
    and is tested on the official test images of the labels among them; so by default with centralised."""

    sizes: tuple[PositiveInt, ...] | None = None
    """Number of clients of each hidden group, as in `[10, 5, 3, 2]`: the first ten clients are the first
    group. None: the kind's own rule, equal sizes unless it is imbalanced."""
    quantity: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Quantity skew: each client keeps a share of its images, drawn log-uniformly between this and 1."""

    arc: Annotated[float, Field(gt=0, le=360)] = 90.0
    """With split continuum: degrees over which the clients' angles are spread."""

    path: str | None = None
    """With split file: the path of the csv or Parquet file that assigns examples to clients; a run's
    configuration names it by its content (`runtime.data.partition_files`)."""

    # Keys that came after the first stored runs: left out of the JSON at their defaults, so that older runs
    # keep their ids.
    omitted_defaults = (
        "labels_share",
        "tested_on",
        "majority",
        "first_group",
        "scored_on",
        "reference_images",
        "sizes",
        "quantity",
        "arc",
        "path",
    )
