"""What an example is when a model receives it: an image's pixels, numbers, or tokens of a text."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Kind = Literal["pixels", "numbers", "tokens"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ONLY_PIXELS: tuple[Kind, ...] = ("pixels",)
DTYPES: dict[Kind, np.dtype[Any]] = {
    # One byte a pixel: a pool in float32 would take four times the memory, on the device too.
    "pixels": np.dtype(np.uint8),
    "numbers": np.dtype(np.float32),
    "tokens": np.dtype(np.int64),
}
"""The type in which examples are stored, by kind. Models receive pixels as float32 in [0, 1], all else as
stored."""
KIND_NAMES: dict[Kind, str] = {"pixels": "images", "numbers": "numbers", "tokens": "tokens"}
"""What messages call the examples of a kind."""


@dataclass(frozen=True)
class Inputs:
    """Kind, shape and vocabulary of the examples that a model is built for.

    A batch of N examples has the shape (N, *shape). A plugin's model function receives this object and the
    number of classes, see `ModelEntry.module`.

    Args:
        kind: `pixels`, `numbers` or `tokens`.
        shape: shape of one example.
        vocabulary: number of different tokens. Default: 0, for pixels and numbers.
        padding: token that fills short texts. Default: None, no padding.

    Example:
        >>> import fedgrid
        >>> inputs = fedgrid.Inputs("pixels", (1, 28, 28))
        >>> print(inputs, inputs.num_bytes)
        images of 1x28x28 pixels 784
        >>> print(fedgrid.Inputs("tokens", (24,), vocabulary=28, padding=0))
        texts of 24 tokens, 28 different ones
    """

    kind: Kind
    """`pixels`: float32 in [0, 1]. `numbers`: float32. `tokens`: int64, counted from 0."""
    shape: tuple[int, ...]
    """Of an image (channels, height, width); of numbers (columns,), or (channels, length) of a series; of
    tokens (length,)."""
    vocabulary: int = 0
    """Number of different tokens; 0 for other kinds."""
    padding: int | None = None
    """The token that fills short texts up to `shape`, in front; a model's attention mask is where tokens
    differ from it."""

    @property
    def num_bytes(self) -> int:
        """Memory of one example in bytes, in the type in which it is stored."""
        return prod(self.shape) * DTYPES[self.kind].itemsize

    def __str__(self) -> str:
        """Describe the examples in words, for messages."""
        size = "x".join(map(str, self.shape))
        if self.kind == "tokens":
            return f"texts of {size} tokens, {self.vocabulary} different ones"
        if self.kind == "numbers":
            return {1: f"{size} numbers a row", 2: f"series of {size} numbers"}.get(
                len(self.shape), f"numbers of {size}"
            )
        return f"images of {size} pixels"


def draw_examples(inputs: Inputs, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw examples whose values do not matter, with the shape and type of `ImageSet.images`."""
    size = (count, *inputs.shape)
    if inputs.kind == "numbers":
        return rng.standard_normal(size, np.float32)
    return rng.integers(0, inputs.vocabulary or 256, size, DTYPES[inputs.kind])


def image_inputs(*shape: int) -> Inputs:
    """Build the `Inputs` of images with these channels, height and width."""
    return Inputs("pixels", shape)
