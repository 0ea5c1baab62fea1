"""Continuum: clients differ by degrees, each has an angle of its own, and there are no hidden groups.

Client i of K turns its images, training and test, anticlockwise by i / K of `split.arc`, 90 degrees unless it
says otherwise: 0, 4.5, 9 to 85.5 degrees for 20 clients. Neighbours hardly differ, the first and the last
client most; with 360 degrees the angles go all the way round. The images of the pool are dealt evenly, as
with IID. All clients count as one group, and no score compares clusters with groups.

Source: ours, after the rotated groups of Ghosh et al., NeurIPS 2020. Most clustered methods assume groups;
here each cut through the clients is arbitrary.

Shapes: N images.
"""

from dataclasses import replace
from math import cos, radians, sin

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet


def turn(held: ImageSet, degrees: float) -> ImageSet:
    """Turn images anticlockwise about their centre; they keep their size, and what is outside is 0.

    A pixel is interpolated between the four nearest ones (bilinear), and rounded to the nearest whole number,
    halves to the even one. Sine and cosine are rounded to nine decimals, since their last bits depend on the
    processor; all else is single steps in float64, which do not.
    """
    sine, cosine = round(sin(radians(degrees)), 9), round(cos(radians(degrees)), 9)
    height, width = held.images.shape[2:]
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    down, right = np.arange(height)[:, None] - middle_row, np.arange(width)[None, :] - middle_column
    # One pixel further down and right, for the border of zeros.
    rows = np.clip(down * cosine + right * sine + middle_row + 1, 0, height + 1)
    columns = np.clip(right * cosine - down * sine + middle_column + 1, 0, width + 1)
    top, left = np.minimum(rows.astype(int), height), np.minimum(columns.astype(int), width)
    below, beside = rows - top, columns - left
    framed = np.pad(held.images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    upper = framed[..., top, left] * (1 - beside) + framed[..., top, left + 1] * beside
    lower = framed[..., top + 1, left] * (1 - beside) + framed[..., top + 1, left + 1] * beside
    return replace(held, images=np.rint(upper * (1 - below) + lower * below).astype(np.uint8))
