"""Groups with the same images, each changed in its own way: rotated, flipped, dimmed, two-levels and others.

Client i is in group i mod G, unless `split.sizes` says otherwise. The images of the pool are dealt to all
clients, evenly or by a Dirichlet distribution (`split.alpha`), so that every image has one client. A group's
change is made to the training and the test images of its clients; IID and centralised have one group and no
change, centralised one client. No label distribution gives the groups away: only images (rotated, rolled,
dimmed, noisy), the meaning of labels (flipped, swapped) or both (two-levels) differ.

Sources: rotated, Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020 (there
each group has a copy of all images; here the groups share them out, as in Prigent et al.); flipped, the code
of Prigent et al. (cedricprigent/efficient-fl-clustering); swapped, Sattler, Mueller, Samek, Clustered
Federated Learning, 2021 (which pair a group exchanges is our choice). Rolled is ours, for series, which
cannot be turned. Dimmed and noisy are ours: brightness and Gaussian noise are corruptions of Hendrycks and
Dietterich, ICLR 2019, in steps of our own. Two-levels is ours too: two coarse groups that differ in their
images, each of fine groups that differ in their labels; the fine ones are the hidden groups.

Continuum, ours after the rotated groups, has no hidden groups: clients differ by degrees, each has an angle
of its own. Client i of K turns its images, training and test, anticlockwise by i / K of `split.arc`, 90
degrees unless it says otherwise: 0, 4.5, 9 to 85.5 degrees for 20 clients. Neighbours hardly differ, the
first and the last client most; with 360 degrees the angles go all the way round. All clients count as one
group, and no score compares clusters with groups. Most clustered methods assume groups; here each cut through
the clients is arbitrary.

Shapes: K clients, G groups, L classes, N images.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from hashlib import sha256
from math import cos, radians, sin
from types import MappingProxyType

import numpy as np

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import KINDS, ONLY_PIXELS
from fedgrid.engine.federation.partition.dirichlet import check_pool_size, deal_by_shares
from fedgrid.engine.federation.partition.kind import Changes, ImagePool, Rngs, SplitKind, Transform
from fedgrid.engine.federation.partition.scenarios import Scenario, list_groups
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator

QUARTERS = 4
"""Different turns by quarters: rotations by other angles would need interpolation, and a border."""


class DealtSplit(SplitKind):
    """A kind that deals images out without regard to groups.

    Args:
        transform: what a group does to examples. Default: nothing.
        problem_with: explains why a number of groups is impossible; an empty text if it is possible. Default:
            any is.
        takes: the kinds of examples that it can change. Default: all.
    """

    OPTIONS: tuple[str, ...] = ("alpha", "num_clusters", "sizes")
    DEFAULTS = MappingProxyType({"num_clusters": 4, "alpha": None})

    def __init__(
        self,
        transform: Transform | None = None,
        problem_with: Callable[[int, Facts], str] = lambda num_groups, facts: "",
        takes: Collection[str] = KINDS,
    ) -> None:
        """Store what makes this kind differ from others."""
        self.TRANSFORM, self.TAKES = transform, takes
        self._find_problem = problem_with

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that every group has a client and a change of its own; called as in
        `SplitKind.check_settings`.
        """
        if problem := self._find_problem(split.num_clusters, facts):
            raise ConfigError(
                f"split.num_clusters = {split.num_clusters}: split {scenario.split} {problem}",
                ("split", "num_clusters"),
            )
        if scenario.num_clients < split.num_clusters:
            raise ConfigError(
                f"clients = {scenario.num_clients}: split {scenario.split} has {split.num_clusters} "
                f"hidden groups; take at least {split.num_clusters} clients or a smaller split.num_clusters",
                ("clients",),
            )
        if split.alpha is not None:
            check_pool_size(scenario, facts.pool_size)

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Deal the images out without regard to the groups; called as in `SplitKind.deal_images`."""
        # One generator for all clients: a single deal hands out each image once, unlike the draws of `ocfl`.
        rng = make_generator(seed, f"deal of {scenario.seed_text}")
        held_K = deal_by_shares(pool.positions_L, scenario.num_clients, split.alpha, rng)
        return Partition(self.list_groups(scenario, split), held_K)

    def list_groups(self, scenario: Scenario, split: Split) -> list[int]:
        """List the hidden group of each client: in turn, unless `split.sizes` says otherwise."""
        if split.sizes is not None:
            return list_groups(split.sizes)
        return [client % split.num_clusters for client in range(scenario.num_clients)]


class DirichletSplit(DealtSplit):
    """A kind that cuts each class among the clients by Dirichlet shares of its own; all clients count as one
    group.
    """

    OPTIONS: tuple[str, ...] = ("alpha",)
    DEFAULTS = MappingProxyType({"alpha": 0.1})
    BY_CLASS = True

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that there are enough images, and an alpha."""
        if split.alpha is None:
            raise ConfigError(
                "split.alpha = null: split dirichlet needs a number above 0; leave it out for 0.1",
                ("split", "alpha"),
            )
        check_pool_size(scenario, facts.pool_size)

    def list_groups(self, scenario: Scenario, split: Split) -> list[int]:
        """List one group for all clients."""
        return [0] * scenario.num_clients


class TransformSplit(DealtSplit):
    """A kind whose groups differ by a transform alone, so that a client can move to another one."""

    CAN_MOVE = True


class LabelSplit(TransformSplit):
    """A kind whose groups give classes other labels."""

    BY_CLASS = True


class OneGroup(DealtSplit):
    """A kind with one hidden group, whose images are as they are: there are no groups to be found."""

    OPTIONS: tuple[str, ...] = ()
    DEFAULTS = MappingProxyType({"num_clusters": 1, "alpha": None})


class OneClient(OneGroup):
    """A kind with a single client, tested on the official images: training without a federation."""

    DEFAULTS = MappingProxyType({**OneGroup.DEFAULTS, "tested_on": "official"})

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that there is one client."""
        if scenario.num_clients != 1:
            raise ConfigError(
                f"clients = {scenario.num_clients}: split {scenario.split} has a single client; take 1",
                ("clients",),
            )


class Continuum(OneGroup):
    """A kind that turns images anticlockwise by client / clients of `arc`, an angle for each client."""

    OPTIONS: tuple[str, ...] = ("arc",)

    def build_changes(self, split: Split, num_clients: int, num_classes: int) -> Changes:
        """Build the turn of each client."""
        return Changes(
            num_clients, lambda held, client: turn_images(held, split.arc * client / num_clients), True
        )


def rotate_images(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Rotate images anticlockwise by `group` / `num_groups` of a full turn, in whole quarters.

    Three groups are turned by 0, 90 and 180 degrees.

    Args:
        held: the images.
        group: the hidden group, from 0.
        num_groups: G.
        num_classes: L; it has no effect here.
    """
    quarters = group * QUARTERS // num_groups
    # `rot90` returns a view with negative strides, which torch refuses.
    return replace(held, images=np.ascontiguousarray(np.rot90(held.images, quarters, axes=(2, 3))))


def turn_images(held: ImageSet, degrees: float) -> ImageSet:
    """Turn images anticlockwise about their centre; they keep their size, and pixels from outside are 0.

    A pixel is interpolated between the four nearest ones (bilinear), and rounded to the nearest whole number,
    halves to the even one. Sine and cosine are rounded to nine decimals, since their last bits depend on the
    processor; all else is single steps in float64, which do not.
    """
    sine, cosine = round(sin(radians(degrees)), 9), round(cos(radians(degrees)), 9)
    height, width = held.images.shape[2:]
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    # Each pixel of the result is fetched from the place that the inverse turn gives it, so no hole is left.
    down, right = np.arange(height)[:, None] - middle_row, np.arange(width)[None, :] - middle_column
    # One pixel further down and right, for the border of zeros.
    rows = np.clip(down * cosine + right * sine + middle_row + 1, 0, height + 1)
    columns = np.clip(right * cosine - down * sine + middle_column + 1, 0, width + 1)
    top, left = np.minimum(rows.astype(int), height), np.minimum(columns.astype(int), width)
    lower_share, right_share = rows - top, columns - left
    framed = np.pad(held.images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    upper = framed[..., top, left] * (1 - right_share) + framed[..., top, left + 1] * right_share
    lower = framed[..., top + 1, left] * (1 - right_share) + framed[..., top + 1, left + 1] * right_share
    return replace(held, images=np.rint(upper * (1 - lower_share) + lower * lower_share).astype(np.uint8))


def roll_values(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Roll all values along the last axis, round its end, by `group` / `num_groups` of its length.

    Args:
        held: the examples.
        group: the hidden group, from 0.
        num_groups: G.
        num_classes: L; it has no effect here.
    """
    length = held.images.shape[-1]
    return replace(held, images=np.roll(held.images, group * length // num_groups, axis=-1))


def flip_labels(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Replace each label by (label - `group`) mod L.

    Args:
        held: the examples.
        group: the hidden group, from 0.
        num_groups: G; it has no effect here.
        num_classes: L.
    """
    return replace(held, labels=(held.labels - group) % num_classes)


def swap_labels(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Exchange labels 2 `group` and 2 `group` + 1.

    Args:
        held: the examples.
        group: the hidden group, from 0.
        num_groups: G; it has no effect here.
        num_classes: L.
    """
    new_L = np.arange(num_classes)
    new_L[[2 * group, 2 * group + 1]] = 2 * group + 1, 2 * group
    return replace(held, labels=new_L[held.labels])


def swap_and_rotate(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Exchange two labels by the group's place in its half, and turn the second half's images upside down.

    Args:
        held: the images.
        group: the hidden group, from 0; groups from G / 2 on are the second half.
        num_groups: G, even.
        num_classes: L.
    """
    half, place = divmod(group, num_groups // 2)
    return rotate_images(swap_labels(held, place, num_groups, num_classes), half, 2, num_classes)


def dim_images(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Multiply pixels by 1 - `group` / G: with four groups by 1, 0.75, 0.5 and 0.25.

    Args:
        held: the images.
        group: the hidden group, from 0.
        num_groups: G.
        num_classes: L; it has no effect here.
    """
    images = np.rint(held.images * (1 - group / num_groups)).astype(np.uint8)
    return replace(held, images=images)


def add_noise(held: ImageSet, group: int, num_groups: int, num_classes: int) -> ImageSet:
    """Add Gaussian noise of standard deviation 255 `group` / 2 G: with four groups 0, 32, 64 and 96.

    An image's noise is drawn from its own bytes: it is the same in every run, and at every client.

    Args:
        held: the images.
        group: the hidden group, from 0.
        num_groups: G.
        num_classes: L; it has no effect here.
    """
    if group == 0 or len(held) == 0:
        return held
    deviation, shape = 255 * group / (2 * num_groups), held.images.shape[1:]
    # The image's bytes and nothing else: a client that moves, or two clients with one image, see the same
    # noise.
    seeds = [int.from_bytes(sha256(image.tobytes()).digest()[:16], "big") for image in held.images]
    noise = np.stack([np.random.default_rng(seed).normal(0, deviation, shape) for seed in seeds])
    return replace(held, images=np.clip(np.rint(held.images + noise), 0, 255).astype(np.uint8))


def _find_problem_with_turns(num_groups: int, facts: Facts) -> str:
    """Explain why images cannot have this many quarter turns; empty if they can."""
    if num_groups > QUARTERS:
        return "turns by quarters of a full turn; take at most 4 groups (0, 90, 180, 270 degrees)"
    shape = facts.inputs.shape
    if num_groups > 2 and shape[1] != shape[2]:
        size = "x".join(map(str, shape))
        return f"turns images by 90 degrees, these are {size}; make them square, or take 2 groups (0, 180)"
    return ""


def _find_problem_with_rolls(num_groups: int, facts: Facts) -> str:
    """Explain why examples cannot be rolled in this many ways; empty if they can."""
    if num_groups > (length := facts.inputs.shape[-1]):
        return f"moves {length} values by whole places; take at most as many groups"
    return ""


def _find_problem_with_swaps(num_groups: int, facts: Facts) -> str:
    """Explain why classes cannot be exchanged in this many ways; empty if they can."""
    if 2 * num_groups > facts.num_classes:
        return (
            f"exchanges two of the {facts.num_classes} classes in each group, no class in two; take at most "
            f"{facts.num_classes // 2}"
        )
    return ""


def _find_problem_with_levels(num_groups: int, facts: Facts) -> str:
    """Explain why two levels cannot have this many groups; empty if they can."""
    if num_groups % 2:
        return "has as many groups of turned images as of others; take an even number"
    if num_groups > facts.num_classes:
        return (
            f"exchanges two of the {facts.num_classes} classes in each group of a half, no class in "
            f"two; take at most {facts.num_classes // 2 * 2}"
        )
    return ""


def find_problem_with_groups(num_groups: int, facts: Facts) -> str:
    """Explain why there is only one group where all clients are one; empty if there is one."""
    return "" if num_groups == 1 else "has one group, all clients; leave it out"


DIRICHLET = DirichletSplit()
IID = OneGroup(None, find_problem_with_groups)
ONE_CLIENT = OneClient()
ROTATED = TransformSplit(rotate_images, _find_problem_with_turns, ONLY_PIXELS)
ROLLED = TransformSplit(roll_values, _find_problem_with_rolls)
FLIPPED = LabelSplit(
    flip_labels,
    lambda num_groups, facts: (
        ""
        if num_groups <= facts.num_classes
        else f"has as many different groups as classes; take at most {facts.num_classes}"
    ),
)
SWAPPED = LabelSplit(swap_labels, _find_problem_with_swaps)
CONTINUUM = Continuum(None, find_problem_with_groups, ONLY_PIXELS)
TWO_LEVELS = LabelSplit(swap_and_rotate, _find_problem_with_levels, ONLY_PIXELS)
DIMMED = TransformSplit(dim_images, takes=ONLY_PIXELS)
NOISY = TransformSplit(add_noise, takes=ONLY_PIXELS)
