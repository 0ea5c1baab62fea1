"""What an encoder of images is: how it is made and trained, before the first round of any run that names it.

Source: Prigent, Chelli, Costan, Cudennec, Schubert, Antoniu, Efficient Resource-Constrained Federated
Learning Clustering with Local Data Compression on the Edge-to-Cloud Continuum, HiPC 2024, section III, and
its code. An encoder that several runs name is trained once (`runtime.run.pretraining`).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section

EncoderKind = Literal["dense", "convolutional", "pca", "pixels"]
REFERENCE = "reference"
"""The value of `public` that stands for the server's own reference images."""


class EncoderSettings(Section):
    """How images become codes. `public`, `federated` or both say on what it is trained."""

    name: EncoderKind | None = None
    """`dense` and `convolutional` are the paper's autoencoders; None takes the first for grey images, the
    second for images with several channels, as the paper does. `pca`: principal components; `pixels`: the
    images themselves."""
    public: str | None = None
    """A data set, as `fmnist`, or `reference`: the reference images that the server has
    (`split.reference_images`). The server trains on it; nothing is sent but the encoder."""
    epochs: PositiveInt = 20
    """On the public set."""
    federated: Annotated[int, Field(ge=0, strict=True)] = 0
    """Rounds of FedAvg among the run's own clients; after the public set, if both are given."""
    local_epochs: PositiveInt = 3
    """Of a client in such a round."""
    participation: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the clients in such a round."""
    components: PositiveInt = 20
    """Of `pca`."""
    batch_size: Annotated[int, Field(ge=2, strict=True)] = 32
    """Images in a batch of its training."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of Adam, which minimises the mean squared error of the pixels, in 0..1."""
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    """Of the initial weights and batches. Runs of all seeds share an encoder of a public set."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Largest Euclidean norm of an update in the federated rounds; None: any."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the noise that each client adds to it, in units of `clip`; 0: none."""
    batch_statistics: bool = False
    """Whether BatchNorm takes the statistics of a client's images of one class when these are encoded, as the
    release does, instead of those of the training."""

    omitted_defaults = ("clip", "noise")

    @property
    def words(self) -> str:
        """What it is trained on: `50 epochs of cifar100, then 3 federated rounds`; empty if on nothing."""
        if self.name == "pixels":
            return ""
        parts = [f"{self.epochs} epochs of {self.public}"] if self.public and self.name != "pca" else []
        parts += [f"components of {self.public}"] if self.name == "pca" else []
        return ", then ".join(parts + [f"{self.federated} federated rounds"] * (self.federated > 0))

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _has_images(self) -> Self:
        if self.name == "pixels":
            return self
        if self.name == "pca" and (self.public is None or self.federated):
            raise ValueError(
                "pca takes its components from a public set alone: set encoder.public, as in "
                "{name: pca, public: fmnist}, and leave encoder.federated out"
            )
        for key in ("clip", "noise"):
            if getattr(self, key) and not self.federated:
                raise ValueError(
                    f"{key} is of clients' updates: set encoder.federated too, as in 10, or leave it out"
                )
        if self.noise and self.clip is None:
            raise ValueError(
                "noise without clip: its size is a multiple of the clip; set clip too, as in 1.0"
            )
        if self.public is None and not self.federated:
            raise ValueError(
                "nothing says what the encoder is trained on: set encoder.public to a data set or to "
                f"{REFERENCE}, or encoder.federated to a number of rounds; {{name: pixels}} needs neither"
            )
        return self


def kind_of(settings: EncoderSettings, shape: Sequence[int]) -> EncoderKind:
    """Return what kind of encoder the settings ask for, for images of a shape (channels, height, width)."""
    return settings.name or ("dense" if shape[0] == 1 else "convolutional")
