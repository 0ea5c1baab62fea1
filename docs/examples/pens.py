"""Writes pens.npz: digits in two hidden groups, bold and fine."""

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images = (digits.images * (255 / 16)).astype(np.uint8)
bold = np.where(images.mean(axis=(1, 2)) > 78, "bold", "fine")
test = np.arange(len(images)) % 5 == 0
arrays = {"images": images, "labels": digits.target, "group": bold}
np.savez(
    "pens.npz",
    **{f"train_{name}": array[~test] for name, array in arrays.items()},
    **{f"test_{name}": array[test] for name, array in arrays.items()},
)
