"""Reconstructions below their originals, as one picture for each run."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME_LENGTH = 14
"""Letters of a class's name that fit above a picture."""
MAX_PICTURES = 12
"""Most pictures of messages, and of updates."""
Image = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Picture:
    """A reconstruction, with the original that it is compared with."""

    source: str
    """What it was made from: `message` or `update`."""
    client: int
    label: int
    truth: Image
    """Original in [0, 1], shape (C, H, W): the class mean of the client, or its nearest image."""
    reconstruction: Image
    """Reconstruction, in the same form."""


def draw_pictures(pictures: Sequence[Picture], title: str, classes: Sequence[str] = ()) -> bytes:
    """Draw the first pictures of messages, then those of updates, each below its original.

    Args:
        pictures: Reconstructions.
        title: Title of the figure.
        classes: Names of the classes; by default their numbers are shown.

    Returns:
        A PNG file.
    """
    from matplotlib.figure import Figure

    from fedgrid.tracking.figures.style import boxes_for_missing_glyphs

    kinds = [
        (of, part)
        for of in ("message", "update")
        if (part := [picture for picture in pictures if picture.source == of][:MAX_PICTURES])
    ]
    columns = max(len(part) for _, part in kinds)
    figure = Figure(figsize=(0.9 + 0.9 * columns, 0.4 + 2.1 * len(kinds)), layout="constrained")
    axes = figure.subplots(2 * len(kinds), columns, squeeze=False)
    for place in axes.flat:
        place.set_axis_off()
    for at, (of, part) in enumerate(kinds):
        names = ("class mean", "decoded") if of == "message" else ("nearest image", "inverted")
        for column, picture in enumerate(part):
            for row, image in enumerate((picture.truth, picture.reconstruction)):
                place = axes[2 * at + row, column]
                place.imshow(_for_matplotlib(image), cmap="gray", vmin=0, vmax=1)
                if row == 0:
                    name = classes[picture.label][:NAME_LENGTH] if classes else f"class {picture.label}"
                    # `parse_math=False`: the name of a class may have dollar signs.
                    place.set_title(f"client {picture.client}\n{name}", fontsize=7, parse_math=False)
                if column == 0:
                    place.text(
                        -0.15,
                        0.5,
                        names[row],
                        fontsize=7,
                        rotation=90,
                        va="center",
                        ha="right",
                        transform=place.transAxes,
                    )
    figure.suptitle(title, fontsize=8, parse_math=False)
    data = BytesIO()
    with boxes_for_missing_glyphs():
        # Without matplotlib's version in the file, the same pictures are the same bytes.
        figure.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()


def _for_matplotlib(image: Image) -> Image:
    """Convert an image for matplotlib: grey of shape (H, W), or colours last."""
    clipped = np.clip(image, 0, 1)
    return clipped[0] if len(clipped) == 1 else np.moveaxis(clipped, 0, -1)
