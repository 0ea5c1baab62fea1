"""Print the data sets, splits, algorithms, models and presets to choose from, as tables or as JSON."""

import json
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS, NAMES_IN_PAPERS
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.errors import unknown_name_error
from fedgrid.engine.federation.models.registry import AUTOENCODERS, MODELS, ModelEntry
from fedgrid.engine.runtime.data.datasets import find_dataset, is_here
from fedgrid.engine.runtime.data.femnist import convert_femnist_files
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.presets.key_docs import list_settings
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.preset_files import list_presets, read_preset_text, read_top_comment

OWN_DATA_TEXT = (
    "\nYour own data: folder:PATH (train/<class>/*, test/<class>/*), npz:PATH (MedMNIST's keys), "
    "csv:PATH or parquet:PATH (columns label, client, group, subject, test), hf:NAME (Hugging Face hub).\n"
    "MedMNIST's sets with larger images: NAME-64 and NAME-224, as in bloodmnist-64."
)


def list_datasets(data_dir: Path, as_json: bool, console: Console) -> None:
    """Print the data sets, their sources, and whether their images are here."""
    rows = []
    for entry in DATASETS.values():
        here = is_here(entry.name, data_dir)
        # Larger versions of MedMNIST's sets would triple the table: they are listed once their images are
        # here.
        if not (here or entry.is_listed):
            continue
        dataset = find_dataset(entry.name, data_dir) if here else entry
        rows.append(
            {
                "name": dataset.name,
                "title": dataset.title,
                "images": "x".join(map(str, dataset.inputs.shape)),
                "classes": dataset.num_classes,
                "pool": dataset.pool_size,
                "here": here,
                "download_mb": dataset.download_mb,
                "source": dataset.source,
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = TextTable(
        ("name", "images", "classes", "pool", "here", "source"),
        [
            (
                str(row["name"]),
                str(row["images"] or "–"),
                str(row["classes"] or "–"),
                f"{row['pool']:,}" if row["pool"] else "–",
                "yes" if row["here"] else f"no ({row['download_mb']} MB)" if row["download_mb"] else "no",
                str(row["source"]),
            )
            for row in rows
        ],
    )
    console.print(table)
    console.print(OWN_DATA_TEXT, soft_wrap=True)
    console.print(f"Splits of a data set, docs/splits.md: {', '.join(KINDS)}.")
    console.print(f"Data folder: {data_dir}", soft_wrap=True)


def convert_femnist(source: Path, data_dir: Path, console: Console) -> None:
    """Write FEMNIST's file into the data folder, and print what it contains.

    Raises:
        DataError: the source is not of a known format.
        StorageError: the data folder cannot be written.
    """
    target = data_dir / DATASETS["femnist"].location
    with console.status(Text(f"Reading {source} ...")):
        made = convert_femnist_files(source, target)
    console.print(
        f"{made.writers:,} writers, {made.pool:,} training images and {made.test:,} for the server: {target}",
        soft_wrap=True,
    )


def print_algorithms(name: str | None, as_json: bool, console: Console) -> None:
    """Print the algorithms, one line each, with their source; or one of them, with its settings.

    Raises:
        ConfigError: if there is no algorithm of that name.
    """
    if name is not None and name not in ALGORITHMS:
        raise unknown_name_error("algorithm", name, ALGORITHMS, NAMES_IN_PAPERS)
    if as_json:
        print(
            json.dumps(
                [*map(_describe_algorithm, ALGORITHMS)] if name is None else _describe_algorithm(name),
                indent=2,
            )
        )
        return
    if name is not None:
        _show_algorithm(name, console)
        return
    rows = [(entry.name, entry.title, entry.summary, entry.source) for entry in ALGORITHMS.values()]
    console.print(TextTable(("name", "in papers", "what it does", "source"), rows))
    console.print(
        "\nSettings of one, with their defaults: fedgrid list algorithms NAME; of all: --json. Set one with "
        "algorithm.KEY=VALUE"
    )


def _describe_algorithm(name: str) -> dict[str, object]:
    """Describe an algorithm as values for JSON."""
    entry = ALGORITHMS[name]
    return {
        "name": entry.name,
        "title": entry.title,
        "summary": entry.summary,
        "source": entry.source,
        "told": entry.told,
        "settings": entry.settings.model_dump(mode="json"),
    }


def _show_algorithm(name: str, console: Console) -> None:
    """Print an algorithm's settings: defaults, allowed values, meaning."""
    entry = ALGORITHMS[name]
    console.print(Text.assemble((entry.name, "bold"), f" ({entry.title}): {entry.summary}"))
    console.print(f"Source: {entry.source}")
    console.print(f"{entry.truth_line}\n" if entry.told else "")
    for number in entry.numbers:
        console.print(f"{number.name}, of each round: {number.meaning}")
    if hasattr(entry.settings, "local"):
        for method, kind in LOCAL_METHODS.items():
            for number in kind.numbers:
                console.print(f"{number.name}, of each round with local {method}: {number.meaning}")
    rows = list(list_settings(entry.settings))
    if not rows:
        console.print("It has no settings.")
        return
    console.print(TextTable(("setting", "default", "allowed", "meaning"), rows))
    console.print(f"\nSet one with algorithm.{rows[0][0]}=VALUE")


def print_models(name: str | None, as_json: bool, console: Console) -> None:
    """Print the models, or one of them, with their numbers of parameters and their source.

    Raises:
        ConfigError: if there is no model of that name.
    """
    every = {**MODELS, **AUTOENCODERS}
    if name is not None and name not in every:
        raise unknown_name_error("model", name, every)
    if as_json:
        entries = [
            {
                "name": entry.name,
                "role": role,
                "summary": entry.description,
                "source": entry.source,
                "minimum_side": entry.minimum_side,
                "parameters": dict(entry.parameters),
            }
            for role, registry in (("model", MODELS), ("encoder", AUTOENCODERS))
            for entry in registry.values()
            if name in (None, entry.name)
        ]
        print(json.dumps(entries if name is None else entries[0], indent=2))
        return
    if name is not None:
        console.print(_model_table([every[name]]))
        return
    console.print(_model_table(MODELS.values()))
    console.print("\nAutoencoders of `embeddings`: algorithm.encoder.name is dense or convolutional.\n")
    console.print(_model_table(AUTOENCODERS.values()))
    console.print("\nParameters with ten classes and images of that size; – if a plugin does not say.")


def _model_table(entries: Iterable[ModelEntry]) -> TextTable:
    """Build a table of models."""
    rows = [
        (
            entry.name,
            "\n".join(f"{count:,} ({size})" for size, count in entry.parameters.items()) or "–",
            entry.description,
            entry.source,
        )
        for entry in entries
    ]
    return TextTable(("name", "parameters", "what it is", "source"), rows)


def print_presets(name: str | None, as_json: bool, console: Console) -> None:
    """Print name, number of runs and subject of the grids that come with fedgrid; or the file of one.

    Raises:
        ConfigError: if there is no preset of that name.
    """
    if name is not None and name not in list_presets():
        raise unknown_name_error("preset", name, list_presets())
    if name is not None and not as_json:
        print(read_preset_text(name), end="")
        return
    rows = [
        {
            "name": each,
            "runs": len(load_grid(each, {}, [], Path()).runs),
            "what": read_subject(read_preset_text(each)),
        }
        for each in list_presets()
        if name in (None, each)
    ]
    if as_json:
        print(json.dumps(rows if name is None else rows[0], indent=2))
        return
    console.print(TextTable(("name", "runs", "what"), [tuple(map(str, row.values())) for row in rows]))


def read_subject(text: str) -> str:
    """Read the first comment of a file up to its colon."""
    return read_top_comment(text).partition(": ")[0]
