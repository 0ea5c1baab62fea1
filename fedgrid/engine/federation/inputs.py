"""What an example is, as a model is given it: an image's pixels, numbers, or tokens of a text."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Kind = Literal["pixels", "numbers", "tokens"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ONLY_PIXELS: tuple[Kind, ...] = ("pixels",)
DTYPES: dict[Kind, np.dtype[Any]] = {
    "pixels": np.dtype(np.uint8),
    "numbers": np.dtype(np.float32),
    "tokens": np.dtype(np.int64),
}
"""How examples are stored. A model is given pixels as float32 in [0, 1], all else as it is stored."""
CALLED: dict[Kind, str] = {"pixels": "images", "numbers": "numbers", "tokens": "tokens"}
"""In messages."""


@dataclass(frozen=True)
class Inputs:
    """What an example is. A batch of N examples has the shape (N, *shape)."""

    kind: Kind
    """`pixels`: float32 in [0, 1]. `numbers`: float32. `tokens`: int64, from 0 on."""
    shape: tuple[int, ...]
    """Channels, height, width of an image. Of numbers (columns,), or (channels, length) of a series. Of
    tokens (length,)."""
    vocabulary: int = 0
    """Number of different tokens; 0 for other kinds."""
    padding: int | None = None
    """The token that fills texts up to one length, in front: a model's attention mask is where others are."""

    @property
    def num_bytes(self) -> int:
        """The memory of one as it is stored."""
        return prod(self.shape) * DTYPES[self.kind].itemsize

    def __str__(self) -> str:
        """Return what the examples are, in words."""
        size = "x".join(map(str, self.shape))
        if self.kind == "tokens":
            return f"texts of {size} tokens, {self.vocabulary} different ones"
        if self.kind == "numbers":
            return {1: f"{size} numbers a row", 2: f"series of {size} numbers"}.get(
                len(self.shape), f"numbers of {size}"
            )
        return f"images of {size} pixels"


def random_examples(inputs: Inputs, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return examples as `ImageSet.images` has them, of which nothing but size and type matters."""
    size = (count, *inputs.shape)
    if inputs.kind == "numbers":
        return rng.standard_normal(size, np.float32)
    return rng.integers(0, inputs.vocabulary or 256, size, DTYPES[inputs.kind])


def pixels(*shape: int) -> Inputs:
    """Return what images of these channels, height and width are."""
    return Inputs("pixels", shape)
