"""The page of data sets, models and kinds of split, from their registries."""

import inspect
from collections.abc import Iterator
from types import ModuleType

from docs.reference.markdown import code, page, paragraphs, table
from fedgrid.engine.federation.data.generated import dialects, fedprox, linear_mixture, mnist1d
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.models.registry import AUTOENCODERS, MODELS
from fedgrid.engine.federation.partition.kind import SplitKind
from fedgrid.tracking.scoring.selection import format_value


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    return {
        "reference/data.md": page(
            "# Data sets, models, splits",
            "How to use your own images: [data](../data.md); which split: [splits](../splits.md). "
            "Keys of the section `split`: [configuration](configuration.md#split).",
            "## Data sets",
            "On the terminal: `fedgrid data`. Images are channels x height x width. MedMNIST's sets with "
            "images of 64 and 224 pixels are `pathmnist-64`, `pathmnist-224`, ..., and have the model "
            "`resnet18`. But for `pathmnist` and `bloodmnist`, MB of MedMNIST are those of the pixels: a "
            "download is smaller.",
            table(("name", "images", "classes", "pool", "MB to download", "model", "source"), _datasets()),
            "### Default training",
            "What a run takes that names no other; local epochs are 3 unless the row says otherwise.",
            table(("data set", "rounds", "optimizer, rate", "batch", "others"), _training()),
            *_sections(fedprox, linear_mixture, mnist1d, dialects),
            "## Models",
            "On the terminal: `fedgrid list models`. Any of them runs on any data set whose images are large "
            "enough. They return logits.",
            table(("name", "what it is", "parameters", "smallest side", "source"), _models(MODELS)),
            "### Autoencoders",
            "Of the setting `encoder` of [`embeddings`](algorithms/embeddings.md).",
            table(("name", "what it is", "parameters", "smallest side", "source"), _models(AUTOENCODERS)),
            "## Splits",
            "Values of `split`, or of `split.kind`. Only the keys that are listed act on a kind; those of "
            "another kind are refused. Keys that act on all: `test_share`, `tested_on`, `scored_on`, "
            "`server_images`, `reference_images`, `quantity`; where clients share images, also "
            "`test_leakage`.",
            table(
                ("`split`", "who holds what", "its keys", "its defaults", "clients share images"), _kinds()
            ),
            *_rules(),
        )
    }


LISTED = [dataset for dataset in DATASETS.values() if dataset.is_listed]


def _datasets() -> Iterator[tuple[str, ...]]:
    for dataset in LISTED:
        yield (
            code(dataset.name),
            " x ".join(map(str, dataset.inputs.shape)),
            str(dataset.num_classes),
            f"{dataset.pool_size:,}",
            str(dataset.download_mb or ""),
            code(dataset.model),
            dataset.source,
        )


def _training() -> Iterator[tuple[str, ...]]:
    shown = ("rounds", "optimizer", "learning_rate", "batch_size")
    for dataset in LISTED:
        training = dataset.training
        others = [
            f"`{key}` {format_value(value)}"
            for key, value in training.model_dump().items()
            if key not in shown and value != type(training).model_fields[key].get_default()
        ]
        yield (
            code(dataset.name),
            str(training.rounds),
            f"{training.optimizer}, {format_value(training.learning_rate)}",
            str(training.batch_size),
            ", ".join(others),
        )


def _models(entries: object) -> Iterator[tuple[str, ...]]:
    for entry in entries.values():
        sizes = ", ".join(f"{count:,} ({size})" for size, count in entry.parameters.items())
        yield code(entry.name), entry.description, sizes, str(entry.minimum_side), entry.source


def _kinds() -> Iterator[tuple[str, ...]]:
    for name, kind in KINDS.items():
        defaults = ", ".join(f"`{key}` {format_value(value)}" for key, value in kind.DEFAULTS.items())
        keys = ", ".join(map(code, kind.OPTIONS))
        yield code(name), _first_line(kind), keys, defaults, "yes" if kind.IMAGES_ARE_SHARED else "no"


def _first_line(kind: SplitKind) -> str:
    return paragraphs(kind.TRANSFORM or type(kind))[0]


def _sentence(module: ModuleType) -> str:
    """Return the first line of a module, which is `Title: sentence.`, without its title."""
    text = paragraphs(module)[0].partition(": ")[2]
    return text[:1].upper() + text[1:]


def _rules() -> Iterator[str]:
    """Yield the rule of each module of splits, with its source."""
    yield from _sections(
        *dict.fromkeys(
            inspect.getmodule(kind if isinstance(kind, ModuleType) else type(kind)) for kind in KINDS.values()
        )
    )


def _sections(*modules: ModuleType) -> Iterator[str]:
    """Yield what modules say of themselves, each under its title."""
    for module in modules:
        title, *texts = paragraphs(module)
        yield f"### {title.partition(':')[0]}"
        yield from (text for text in [_sentence(module), *texts] if not text.startswith("Shapes:"))
