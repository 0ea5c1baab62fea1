"""Facts of families of published data sets, one line a set.

Of EMNIST: classes as in torchvision; sizes as in Cohen et al. 2017, those of `letters` as in its files. Of
MedMNIST: as in its package, medmnist. Its site, medmnist.com, says what to cite for the origin of the images.
"""

import string

DIGITS, CAPITALS, SMALL = string.digits, string.ascii_uppercase, string.ascii_lowercase
MERGED = f"{DIGITS}{CAPITALS}abdefghnqrt"
"""Classes of the merged splits: small letters that look like their capitals count as these."""
EMNIST = {
    "balanced": (MERGED, 112_800, 18_800),
    "byclass": (f"{DIGITS}{CAPITALS}{SMALL}", 697_932, 116_323),
    "bymerge": (MERGED, 697_932, 116_323),
    "digits": (DIGITS, 240_000, 40_000),
    "letters": (SMALL, 124_800, 20_800),
    "mnist": (DIGITS, 60_000, 10_000),
}
"""Splits of EMNIST: names of the classes, images of the pool and of the test set."""
MEDMNIST = (
    ("PathMNIST", 9, 3, 100_000, 7_180, "CC BY 4.0"),
    ("BloodMNIST", 8, 3, 13_671, 3_421, "CC BY 4.0"),
    ("BreastMNIST", 2, 1, 624, 156, "CC BY 4.0"),
    ("DermaMNIST", 7, 3, 8_010, 2_005, "CC BY-NC 4.0"),
    ("OCTMNIST", 4, 1, 108_309, 1_000, "CC BY 4.0"),
    ("OrganAMNIST", 11, 1, 41_052, 17_778, "CC BY 4.0"),
    ("OrganCMNIST", 11, 1, 15_367, 8_216, "CC BY 4.0"),
    ("OrganSMNIST", 11, 1, 16_384, 8_827, "CC BY 4.0"),
    ("PneumoniaMNIST", 2, 1, 5_232, 624, "CC BY 4.0"),
    ("TissueMNIST", 8, 1, 189_106, 47_280, "CC BY 4.0"),
)
"""Sets of MedMNIST with one class an image: title, classes, channels, images of the pool and of the test set,
licence.

The pool is their training and validation images."""
SIDES = (28, 64, 224)
"""Sides of MedMNIST's images in pixels. A name without one means 28; the others are larger versions of those
images."""
DOWNLOADS = {"pathmnist": 206, "bloodmnist": 36}
"""Measured sizes of downloads in megabytes; of other sets the size of the pixels counts, which the files
compress."""
VOLUME_SETS = ("organ", "nodule", "adrenal", "fracture", "vessel", "synapse")
REFUSED = {
    "chestmnist": "each of its images may have several of 14 labels, and fedgrid trains classifiers of one",
    "retinamnist": "its classes are grades in an order (ordinal regression), which fedgrid does not use; to "
    "train on them as classes: npz:retinamnist.npz, the file of the package medmnist",
    **{
        f"{name}mnist3d": "its images are volumes, and fedgrid's have a height and a width"
        for name in VOLUME_SETS
    },
}
"""MedMNIST's other sets, and why fedgrid has no entry for them."""
