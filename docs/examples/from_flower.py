"""Writes flower.npz and flower.csv: the images, and who holds which by one of Flower's partitioners."""

import csv
from typing import Any

import numpy as np


def export(partitioner: Any, train: Any, test: Any) -> None:
    """Write both files to the current folder.

    Args:
        partitioner: One of Flower's that has no data set yet.
        train: Data set of Hugging Face with columns `image` and `label`, split among the clients.
        test: The same of the server's test set.
    """
    partitioner.dataset = train.add_column("example", list(range(len(train))))
    with open("flower.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["example", "client"])
        for client in range(partitioner.num_partitions):
            rows.writerows((example, client) for example in partitioner.load_partition(client)["example"])
    arrays = {}
    for part, data in (("train", train), ("test", test)):
        arrays[f"{part}_images"] = np.stack([np.asarray(image) for image in data["image"]])
        arrays[f"{part}_labels"] = np.array(data["label"])
    np.savez("flower.npz", **arrays)
