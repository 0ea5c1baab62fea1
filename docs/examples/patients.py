"""Writes patients.csv: 600 patients of six hospitals, three of which measure the other way round."""

import csv

import numpy as np

rng = np.random.default_rng(0)
with open("patients.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["hospital", "sex", "age", "weight", "pressure", "glucose", "lipids", "outcome"])
    for patient in range(600):
        hospital, ill = patient % 6, rng.random() < 0.5
        sign = 1 if hospital < 3 else -1  # Three hospitals measure the other way round.
        numbers = rng.normal(size=5) + ill * sign
        rows.writerow([f"h{hospital}", rng.choice(["f", "m"]), *numbers.round(3), "ill" if ill else "well"])
