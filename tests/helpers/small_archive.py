"""A small archive laid out as the authors' is: three rounds of runs that cluster in the second one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

Names = tuple[str, str, str, str]

SCENARIO: Names = ("MNIST", "nonoverlaping", "balanced", "15")
SIZES = (5, 5, 5)
CLASSES = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))
METRICS = ("before_update_metrics", "after_update_generalizability", "after_update_metrics")
STATISTICS = ("mean", "median", "var", "std", "p05", "p25", "p50", "p75", "p95")
ROUNDS = 3
TITLES = [
    *("test_loss", "accuracy", "f1score", "precision", "recall"),
    *(f"accuracy_per_{label}" for label in range(10)),
    *("node_id", "epoch"),
]


def find_results(archive: Path, algorithm: str, names: Names = SCENARIO) -> Path:
    """Find the folder of a run's csv files."""
    return archive.joinpath("experiments", *names, "_".join([algorithm, *names]), "results")


def write_run(archive: Path, algorithm: str, names: Names = SCENARIO, sizes: Sequence[int] = SIZES) -> Path:
    """Write a run's mapping, and its temperature if it is one of OCFL's; find its folder.

    Args:
        archive: its root.
        algorithm: as the archive's folders have it.
        names: data set, overlap, balance and number of clients.
        sizes: of the clusters from the second round on.
    """
    folder = find_results(archive, algorithm, names)
    folder.mkdir(parents=True)
    clusters = [name for name, size in zip(("AB", "AA", "AC"), sizes, strict=True) for _ in range(size)]
    titles = [str(client) for client in range(sum(sizes))]
    after = ["A"] * len(titles) if algorithm == "baseline" else clusters
    write_csv(folder / "cluster_id_mapping.csv", [titles, ["A"] * len(titles), after, after])
    if algorithm not in ("baseline", "sattler", "briggs"):
        write_csv(folder / "clusters_temperature.csv", [["0", "A", "0.5"], ["1", "A", "0.625"]])
    return folder


def write_metrics(folder: Path) -> None:
    """Write what the clients of `SCENARIO` measured, in another order each round."""
    write_csv(folder / "training_metrics.csv", list_training())
    for name in METRICS:
        write_csv(folder / f"{name}.csv", list_tests(name))


def list_training() -> Iterator[list[str]]:
    """Yield loss 1 / (round + 1) and accuracy client / 16."""
    yield ["iteration", "node_id", "loss", "accuracy", "full_loss", "full_accuracy"]
    for number, client in list_order():
        loss, accuracy = str(1 / (number + 1)), str(client / 16)
        yield [str(number), str(client), loss, accuracy, f"[2, {loss}]", f"[0, {accuracy}]"]


def list_tests(name: str) -> Iterator[list[str]]:
    """Yield loss 2 + round, accuracy client / 16, F1 half of that; recall 0, 1/16 ... where classes are."""
    yield TITLES
    for number, client in list_order():
        classes = range(10) if name == METRICS[1] else CLASSES[client // 5]
        recalls = {label: str(index / 16) for index, label in enumerate(classes)}
        yield [
            *(str(2 + number), str(client / 16), str(client / 32), "0.5", "0.5"),
            *(recalls.get(label, "nan") for label in range(10)),
            *(str(client), str(number)),
        ]


def list_order() -> Iterator[tuple[int, int]]:
    """Yield round and client, from 0; the clients backwards, then forwards."""
    for number in range(ROUNDS):
        yield from ((number, client) for client in (range(15) if number % 2 else range(14, -1, -1)))


def write_centralised(archive: Path, dataset: str = "MNIST", inner: str = "") -> Path:
    """Write a centralised training of two epochs, below `inner`; find its folder.

    As in the archive the last test does not always name its epoch.
    """
    folder = archive.joinpath("experiments", dataset, "centralised_test", inner)
    folder.mkdir(parents=True)
    scored = ["iteration", "test_loss", "accuracy", "f1score", "precision", "recall", "accuracy_per_0"]
    tested = [["0", "0.5", "0.75", "0.625", "1", "1", "1"], ["1", "0.25", "0.875", "0.8125", "1", "1", "1"]]
    norms = [["0", "1.5", "9", "100"], ["1", "0.5", "8", "106.5"]]
    write_csv(folder / "training_loss.csv", [["iteration", "loss", "gradients_norm", "weights_norm"], *norms])
    write_csv(folder / "validation_results.csv", [scored, *tested])
    epoch = "" if inner else "1"
    write_csv(folder / "final_test.csv", [scored, [epoch, "0.375", "0.9375", "0.5", "1", "1", "1"]])
    return folder


SCORED = [f"{score}_{name}" for score in ("ins", "del") for name in STATISTICS]


def write_explanations(archive: Path, algorithm: str, rows: Sequence[tuple[str, float, float]]) -> Path:
    """Write scores of explanations of `SCENARIO`, 1A: cluster, insertion, deletion, as all statistics."""
    name = f"{'_'.join(SCENARIO)}_{algorithm}.csv"
    path = archive.joinpath("explanations", "experiment1A", SCENARIO[0], name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_scores(path, "cluster", rows)


def write_scores(path: Path, key: str, rows: Sequence[tuple[str, float, float]]) -> Path:
    """Write scores of explanations by cluster, or by `iteration`."""
    lines = [[name, *[str(one)] * len(STATISTICS), *[str(two)] * len(STATISTICS)] for name, one, two in rows]
    write_csv(path, [[key, *SCORED], *lines])
    return path


def write_blueprint(archive: Path, strange: int | None = None) -> Path:
    """Write which images of `SCENARIO` each client held; client `strange` has images of all classes."""
    path = archive.joinpath("datasets", *SCENARIO, "MNIST_15_dataset_blueprint.csv")
    path.parent.mkdir(parents=True)
    rows = [["client_id", "partition", "total_samples", *map(str, range(10))]]
    rows.append(["orchestrator", "central_test_set", "100", *["10"] * 10])
    for client in range(15):
        held = range(10) if client == strange else CLASSES[client // 5]
        for part, each in (("train_set", client + 1), ("test_set", 2)):
            counts = [each if label in held else 0 for label in range(10)]
            rows.append([str(client), part, str(sum(counts)), *map(str, counts)])
    write_csv(path, rows)
    return path


def write_csv(path: Path, rows: Iterator[list[str]] | list[list[str]]) -> None:
    """Write a csv file; what has a comma in it is quoted."""
    lines = (",".join(f'"{cell}"' if "," in cell else cell for cell in row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))


def replace_text(path: Path, line: int, old: str, new: str) -> None:
    """Replace the first `old` in a line, counted from 1.

    Args:
        path: of the file.
        line: its number.
        old: text that must be in it.
        new: text in its place.
    """
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("".join(lines))


def truncate_file(path: Path, lines: int) -> None:
    """Cut a file off after this many lines."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
