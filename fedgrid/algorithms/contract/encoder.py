"""Settings of an encoder of images, which is trained before the first round of any run that names it.

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
    """Settings of an encoder of images: its kind, and its training on `public`, `federated` or both.

    A `Message` has these settings in its field `encoder`. The server trains the encoder before round 1 and
    sends its encoding half to every client that sends a message; the codes stay with the client.

    Args:
        name: `dense` and `convolutional` are the paper's autoencoders; None takes the first for grey images,
            the second for images with several channels, as the paper does.
        public: A data set, such as `fmnist`, or `reference`: the server's reference images
            (`split.reference_images`).
        epochs: epochs on the public set.
        federated: rounds of FedAvg among the run's own clients; after the public set, if both are given.
        local_epochs: local epochs of a client in such a round.
        participation: share of the clients in such a round.
        components: number of principal components of `pca`.
        batch_size: images in a batch of the encoder's training.
        learning_rate: learning rate of Adam, which minimises the mean squared error of the pixels, in 0..1.
        seed: seed of the initial weights and batches.
        clip: largest Euclidean norm of an update in the federated rounds; None: no limit.
        noise: standard deviation of the noise that each client adds to its update, in units of `clip`; 0:
            none.
        batch_statistics: whether BatchNorm uses the statistics of a client's images of one class when these
            are encoded, as the release does, instead of those of the training.

    Raises:
        ValueError: nothing to train on is given, `pca` lacks a public set, or `clip` or `noise` stand without
            federated rounds.

    Example:
        >>> import fedgrid
        >>> fedgrid.EncoderSettings(public="fmnist", epochs=5, federated=3).training_summary
        '5 epochs of fmnist, then 3 federated rounds'
        >>> fedgrid.EncoderSettings(name="pixels").training_summary
        ''
    """

    name: EncoderKind | None = None
    """`dense` and `convolutional` are the paper's autoencoders; None takes the first for grey images, the
    second for images with several channels, as the paper does. `pca`: principal components; `pixels`: the
    images themselves."""
    public: str | None = None
    """A data set, such as `fmnist`, or `reference`: the server's reference images (`split.reference_images`).
    The server trains on it; nothing is sent but the encoder."""
    epochs: PositiveInt = 20
    """Epochs on the public set."""
    federated: Annotated[int, Field(ge=0, strict=True)] = 0
    """Rounds of FedAvg among the run's own clients; after the public set, if both are given."""
    local_epochs: PositiveInt = 3
    """Local epochs of a client in such a round."""
    participation: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the clients in such a round."""
    components: PositiveInt = 20
    """Number of principal components of `pca`."""
    batch_size: Annotated[int, Field(ge=2, strict=True)] = 32
    """Images in a batch of the encoder's training."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Learning rate of Adam, which minimises the mean squared error of the pixels, in 0..1."""
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    """Seed of the initial weights and batches. Runs of all seeds share an encoder of a public set."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Largest Euclidean norm of an update in the federated rounds; None: no limit."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the noise that each client adds to its update, in units of `clip`; 0: none."""
    batch_statistics: bool = False
    """Whether BatchNorm uses the statistics of a client's images of one class when these are encoded, as the
    release does, instead of those of the training."""

    omitted_defaults = ("clip", "noise")

    @property
    def training_summary(self) -> str:
        """Phrase that says what the encoder is trained on; empty for `pixels`."""
        if self.name == "pixels":
            return ""
        parts = [f"{self.epochs} epochs of {self.public}"] if self.public and self.name != "pca" else []
        parts += [f"components of {self.public}"] if self.name == "pca" else []
        return ", then ".join(parts + [f"{self.federated} federated rounds"] * (self.federated > 0))

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: Any) -> Any:
        """Accept a name in place of a mapping."""
        return {"name": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _has_images(self) -> Self:
        """Check that there is something to train on, and that `clip` and `noise` have an effect."""
        if self.name == "pixels":
            return self
        if self.name == "pca" and (self.public is None or self.federated):
            raise ValueError(
                "pca takes its components from a public set alone: set encoder.public, as in "
                "{name: pca, public: fmnist}, and leave encoder.federated out"
            )
        # A setting without effect is refused, as a user would believe in a protection that is not there.
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


def choose_kind(settings: EncoderSettings, shape: Sequence[int]) -> EncoderKind:
    """Choose the kind of encoder for images of a shape (channels, height, width)."""
    return settings.name or ("dense" if shape[0] == 1 else "convolutional")
