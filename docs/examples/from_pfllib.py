"""Writes pfl.npz and pfl.csv from dataset/MNIST of PFLlib.

PFLlib's files are pickles, which can execute anything: read only your own.
"""

import csv
from pathlib import Path

import numpy as np

folder, parts = Path("dataset/MNIST"), ("train", "test")
clients = range(len(list((folder / "train").glob("*.npz"))))
owners = [(client, part) for client in clients for part in parts]
held = [np.load(folder / part / f"{client}.npz", allow_pickle=True)["data"].item() for client, part in owners]
x, y = (np.concatenate([data[name] for data in held]) for name in ("x", "y"))
images = np.rint((x + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)  # From -1 to 1, channels first.
rows = [owner for owner, data in zip(owners, held, strict=True) for _ in data["y"]]
is_test = np.array([part == "test" for _, part in rows])
np.savez("pfl.npz", train_images=images, train_labels=y, test_images=images[is_test], test_labels=y[is_test])
with open("pfl.csv", "w", newline="") as file:
    csv.writer(file).writerows([("client", "part"), *rows])
