"""The server's images: its test set, and the reference images that algorithms may predict on.

Where hidden groups transform their images (rotated, flipped, swapped, dimmed, noisy), an equal, seeded share
of the server's images is as each group would have it. With flipped or swapped labels no single model can be
right on all.

Shapes: N images.
"""

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.split import server_subset
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.scenarios import GroupTransform
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import generator


def server_sets(server: ImageSet, split: Split, seed: int) -> tuple[ImageSet, ImageSet | None]:
    """Return the server's test set and its reference images, which are in no test set; None without any.

    Raises:
        ConfigError: if `split` asks for more images than the data set's official test set has.
    """
    rest, reference = hold_out(server, split.reference_images, seed)
    return server_subset(rest, split.server_images, seed), reference


def sets_of_groups(
    official: ImageSet, split: Split, seed: int, transform: GroupTransform | None
) -> tuple[ImageSet, ImageSet | None]:
    """Return the server's test set and its reference images: of all hidden groups, if these differ.

    Raises:
        ConfigError: as `server_sets`.
    """
    sets = server_sets(official.without_groups(), split, seed)
    if transform is None:
        return sets
    of_groups = transform, split.num_clusters, seed
    test_set, reference_set = sets
    return mixed(test_set, *of_groups, "server images"), (
        None if reference_set is None else mixed(reference_set, *of_groups, "reference images")
    )


def mixed(held: ImageSet, transform: GroupTransform, num_groups: int, seed: int, purpose: str) -> ImageSet:
    """Return the images, in their order, each as one of `num_groups` hidden groups would have it.

    Groups are drawn with the seed; each has as many images as any other, but for one.
    """
    group_N = generator(seed, f"groups of {purpose}").permutation(len(held)) % num_groups
    mixture = ImageSet(held.images.copy(), held.labels.copy())
    for group in range(num_groups):
        of_group = group_N == group
        part = transform(held.take(of_group), group)
        mixture.images[of_group], mixture.labels[of_group] = part.images, part.labels
    return mixture


def server_parts(num_images: int, num_clients: int, batch: int = 128) -> dict[int, slice]:
    """Return which of the server's test images each client tests served models on: parts that tile the set.

    With more clients than images, a few of the clients test a `batch` each, and the others none: a pass of
    the model takes about as long for one image as for many.
    """
    num_parts = num_clients if num_clients <= num_images else max(1, round(num_images / batch))
    bounds = np.linspace(0, num_images, num_parts + 1).round().astype(int)
    parts = dict.fromkeys(range(num_clients), slice(0, 0))
    for part in range(num_parts):
        parts[part * num_clients // num_parts] = slice(bounds[part], bounds[part + 1])
    return parts


def hold_out(server: ImageSet, count: int | None, seed: int) -> tuple[ImageSet, ImageSet | None]:
    """Return the official test images that are left to test on, and the reference images.

    Raises:
        ConfigError: none are left.
    """
    if count is None:
        return server, None
    if count >= len(server):
        raise ConfigError(
            f"split.reference_images {count}: the official test set has {len(server)} images, of which at "
            f"least one must be left to test on; take at most {len(server) - 1}"
        )
    order = generator(seed, "reference images").permutation(len(server))
    return server.take(np.sort(order[count:])), server.take(order[:count])
