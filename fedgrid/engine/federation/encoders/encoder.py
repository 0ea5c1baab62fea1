"""An encoder: images to codes and back, and the local rule by which an autoencoder learns.

Shapes: N images, Z entries of a code, P entries of an autoencoder's state vector, D pixels of an image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrid.algorithms.contract.encoder import EncoderKind
from fedgrid.algorithms.contract.local_rule import Finished, LocalModel, LocalRule, LocalSteps
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.autoencoders import Autoencoder
from fedgrid.engine.federation.models.flat_vectors import build_blank
from fedgrid.engine.federation.training.evaluation import TEST_BATCH, convert_to_inputs

Shape = tuple[int, ...]
STATE, MEAN, COMPONENTS = "state", "mean", "components"
"""Arrays of an encoder: an autoencoder's state vector, (P,); of `pca` the mean image, (D,), and the principal
components, (Z, D). All float32."""
NUM_CLASSES = 1
"""Number of classes that an autoencoder is built for; it has no effect on its shape."""


def format_model_name(kind: EncoderKind) -> str:
    """Format the autoencoder's name in the registry of models."""
    return f"autoencoder-{kind}"


@dataclass(frozen=True)
class Encoder:
    """A trained encoder: its kind, the shape of its images and its arrays."""

    kind: EncoderKind
    """`dense`, `convolutional`, `pca` or `pixels`."""
    shape: Shape
    """Channels, height, width of an image."""
    arrays: Mapping[str, NDArray[np.float32]]
    """Arrays by name: `STATE` of an autoencoder, `MEAN` and `COMPONENTS` of `pca`, none of `pixels`."""
    id: str = ""
    """Name of its folder in a storage; empty for one that is not stored."""
    bytes_down: int = 0
    """Bytes that its federated training has sent to clients; 0 without any. The server's own training sends
    nothing."""
    bytes_up: int = 0
    """Bytes that its federated training has sent to the server."""
    losses: tuple[float, ...] = ()
    """Mean squared error of each epoch on the public set, then of each federated round's last local epoch."""
    batch_statistics: bool = False
    """Whether BatchNorm takes the statistics of each class as it encodes
    (`EncoderSettings.batch_statistics`)."""

    @cached_property
    def num_bytes(self) -> int:
        """Bytes that a client needs in order to encode: without the decoder."""
        if self.kind in ("pca", "pixels"):
            return sum(array.nbytes for array in self.arrays.values())
        slices = flat_vectors.build_layout(
            format_model_name(self.kind), image_inputs(*self.shape), NUM_CLASSES
        ).slices()
        return 4 * sum(prod(shape) for name, _, shape in slices if name.startswith("encoder."))

    @cached_property
    def code_size(self) -> int:
        """Entries of a code, Z."""
        # One empty image through the encoder: its layers alone know the size of a code.
        return int(encode_images(self, np.zeros((1, *self.shape), np.uint8)).shape[1])


class Codec:
    """An encoder on a device.

    Args:
        encoder: the trained encoder.
        device: the torch device. Default: `cpu`.
    """

    def __init__(self, encoder: Encoder, device: str = "cpu") -> None:
        self._encoder, self._device = encoder, device
        self._module: Autoencoder | None = None
        if encoder.kind in ("dense", "convolutional"):
            module = build_blank(
                format_model_name(encoder.kind), image_inputs(*encoder.shape), NUM_CLASSES
            ).to(device)
            assert isinstance(module, Autoencoder)
            flat_vectors.write_vector(module, encoder.arrays[STATE])
            self._module = module.eval()
        self._arrays = {name: torch.tensor(array, device=device) for name, array in encoder.arrays.items()}

    @torch.inference_mode()
    def encode_images(self, images: Tensor) -> Tensor:
        """Encode uint8 images, shape (N, channels, height, width), to codes, float32, shape (N, Z)."""
        parts = [self._encode_inputs(convert_to_inputs(part)) for part in torch.split(images, TEST_BATCH)]
        return torch.cat(parts) if parts else torch.empty(0, self._encoder.code_size, device=self._device)

    @torch.inference_mode()
    def encode_classes(self, images: Tensor, labels: Tensor) -> Tensor:
        """Encode like `encode_images`; if `batch_statistics` is set, with the BatchNorm statistics of each
        class.
        """
        if not self._encoder.batch_statistics or self._module is None:
            return self.encode_images(images)
        codes = self.encode_images(images)
        for label in torch.unique(labels).tolist():
            is_member = labels == label
            if int(is_member.sum()) > 1:  # One image alone may have no variance.
                codes[is_member] = self._by_own_statistics(convert_to_inputs(images[is_member]))
        return codes

    @torch.inference_mode()
    def decode_images(self, codes: Tensor) -> Tensor:
        """Decode codes, shape (N, Z), to images in 0..1, float32, shape (N, channels, height, width)."""
        if self._module is not None:
            return torch.cat([self._module.decode(part) for part in torch.split(codes, TEST_BATCH)])
        pixels = codes
        if self._encoder.kind == "pca":
            pixels = codes @ self._arrays[COMPONENTS] + self._arrays[MEAN]
        return pixels.clip(0, 1).view(-1, *self._encoder.shape)

    def _encode_inputs(self, inputs: Tensor) -> Tensor:
        """Encode one batch of inputs, float32 in 0..1."""
        if self._module is not None:
            return self._module.encode(inputs)
        pixels = inputs.flatten(1)
        if self._encoder.kind == "pca":
            return (pixels - self._arrays[MEAN]) @ self._arrays[COMPONENTS].T
        return pixels

    def _by_own_statistics(self, inputs: Tensor) -> Tensor:
        """Encode inputs with BatchNorm's statistics of these inputs, and restore the module's own."""
        assert self._module is not None
        # A pass in training mode moves the running statistics; the next class must find them as they were.
        state = flat_vectors.read_vector(self._module)
        codes = self._module.train().encode(inputs)
        self._module.eval()
        flat_vectors.write_vector(self._module, state)
        return codes


def encode_images(encoder: Encoder, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Encode uint8 images, shape (N, channels, height, width), on the CPU to codes, float32, (N, Z)."""
    codes: NDArray[np.float32] = Codec(encoder).encode_images(torch.tensor(images)).numpy()
    return codes


def decode_codes(encoder: Encoder, codes: NDArray[Any]) -> NDArray[np.float32]:
    """Decode codes, shape (N, Z), on the CPU to images in 0..1, float32, shape (N, channels, height, width).

    The codes need not be of any image: an attacker decodes what it has. With `pixels` they are the images.
    """
    tensor = torch.tensor(np.asarray(codes, np.float32))
    images: NDArray[np.float32] = Codec(encoder).decode_images(tensor).numpy()
    return images


def fit_components(images: NDArray[Any], count: int) -> dict[str, NDArray[np.float32]]:
    """Fit the arrays of a `pca` encoder to uint8 images: mean and `count` components, the largest first.

    The sign of a component is such that its entry of largest size is positive.

    Raises:
        ConfigError: there are fewer images or pixels than components.
    """
    pixels = images.reshape(len(images), -1).astype(np.float64) / 255
    if count > min(pixels.shape):
        raise ConfigError(
            f"encoder.components {count}: {len(images)} images of {pixels.shape[1]} pixels have at most "
            f"{min(pixels.shape)} principal components"
        )
    mean = pixels.mean(axis=0)
    # An eigenvector's sign is arbitrary and differs between LAPACK builds, so it is fixed below.
    _, vectors = np.linalg.eigh((pixels - mean).T @ (pixels - mean))
    # `eigh` sorts eigenvalues in ascending order.
    components = vectors.T[::-1][:count]
    largest = np.abs(components).argmax(axis=1)
    components = components * np.sign(components[np.arange(count), largest])[:, None]
    return {MEAN: mean.astype(np.float32), COMPONENTS: components.astype(np.float32)}


LOSSES = "losses"
"""Name of an output: the mean squared error of each batch, as the model changed; float32, shape (steps,)."""


class Reconstruction(LocalRule):
    """A local rule whose loss is the mean squared error of an autoencoder's pixels."""

    outputs: ClassVar[tuple[str, ...]] = (LOSSES,)
    public: ClassVar[tuple[str, ...]] = (LOSSES,)  # A record of the experiment's, which no server has.

    def start(self, local: LocalModel) -> LocalSteps:
        """Create the hook that replaces cross-entropy; called once, before a client's first batch."""
        return _ReconstructionSteps()


class _ReconstructionSteps(LocalSteps):
    """The steps of `Reconstruction`: an autoencoder learns its own inputs."""

    def __init__(self) -> None:
        self._losses: list[Tensor] = []

    def step(self, local: LocalModel, images: Tensor, labels: Tensor) -> Tensor:
        """Train on one batch of images; called for each batch in place of the standard step."""
        loss = (local.logits(images) - images).square().mean()
        self._losses.append(loss.detach())
        local.descend(local.gradient(loss))
        # The loop takes logits: those of one class, of which its cross-entropy is 0.
        return labels.new_zeros((len(labels), 1)).float()

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        # Read back in one go: each loss by itself would wait for the device.
        """Collect the losses of all batches; called once, after the last one."""
        losses = torch.stack(self._losses).cpu().numpy() if self._losses else np.empty(0, np.float32)
        return Finished({LOSSES: losses})
