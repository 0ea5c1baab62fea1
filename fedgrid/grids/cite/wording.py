"""Words on many runs: what all have in common once, what differs with what it belongs to. In LaTeX."""

from collections.abc import Callable, Iterable, Sequence

from fedgrid.algorithms.registry import title
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.grids.cite.references import entries
from fedgrid.tracking.tables.formats import escape_latex

Words = Callable[[RunConfig], str]


def title_of_dataset(run: RunConfig) -> str:
    """Return what tables call a run's data set."""
    return DATASETS[run.dataset].title if run.dataset in DATASETS else run.short_dataset


AXES: tuple[Words, ...] = (
    title_of_dataset,
    lambda run: run.split.kind,
    lambda run: str(run.clients),
    lambda run: title(run.algorithm["name"]),
    lambda run: run.model,
)
"""What may say where a value belongs, the most telling first."""


def join_words(texts: Iterable[str], last: str = "and") -> str:
    """Return texts, at least one, as in `a, b and c`."""
    *first, end = texts
    return f"{', '.join(first)} {last} {end}" if first else end


def join_values(runs: Sequence[RunConfig], words: Words) -> str:
    """Return what `words` says of runs, in LaTeX: `50 rounds (MNIST), 80 rounds (CIFAR-10)`.

    If all say the same, or no axis alone tells which says what, there are no brackets: `1 or 5`.
    """
    texts_of_runs = list(map(words, runs))
    texts_once = list(dict.fromkeys(texts_of_runs))
    for axis in AXES if len(texts_once) > 1 else ():
        of_axis: dict[str, set[str]] = {}
        for run, text in zip(runs, texts_of_runs, strict=True):
            of_axis.setdefault(axis(run), set()).add(text)
        is_itself = any(f"{text} ".startswith(f"{value} ") for value in of_axis for text in texts_once)
        if all(len(texts) == 1 for texts in of_axis.values()) and not is_itself:
            owners = {text: [value for value in of_axis if text in of_axis[value]] for text in texts_once}
            return join_words(
                f"{text} ({join_words(map(escape_latex, owners[text]))})" for text in texts_once
            )
    return join_words(texts_once, "or")


def cite_words(runs: Iterable[RunConfig], words: Words, bibtex: Words) -> list[str]:
    """Return what `words` says of runs, each once, with a \\cite of the entries of `bibtex`.

    Neighbours with the same entries have one, at the last of them.
    """
    keys_of: dict[str, dict[str, str]] = {}
    for run in runs:
        keys_of.setdefault(words(run), {}).update(entries([bibtex(run)]))
    keys = [",".join(of_name) for of_name in keys_of.values()]
    return [
        f"{escape_latex(name)} \\cite{{{own}}}" if own and own != after else escape_latex(name)
        for name, own, after in zip(keys_of, keys, [*keys[1:], ""], strict=True)
    ]
