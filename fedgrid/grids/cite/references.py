"""Collect the BibTeX entries of the algorithms and data sets of runs, and of fedgrid."""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from fedgrid.algorithms.averaging.entries import BIBTEX_OF_OPTIMIZER
from fedgrid.algorithms.registry import ALGORITHMS, find_title
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.registry import DATASETS

RELEASE_YEAR = "2026"
"""Year of this version, as CITATION.cff has it once there is a tag."""
ENTRY_KEY = re.compile(r"^@\w+\{([^,]+),", re.MULTILINE)


def format_own_entry() -> str:
    """Format the entry of this version, as CITATION.cff has it."""
    return f"""@misc{{fedgrid,
  author = {{{{The fedgrid authors}}}},
  title = {{{{fedgrid}}: grids of clustered federated learning experiments on {{Ray}}}},
  year = {{{RELEASE_YEAR}}},
  note = {{Version {version("fedgrid")}}}
}}"""


def find_algorithm_entries(run: RunConfig) -> str:
    """Find the entries of a run's algorithm, its local training and its server optimizer."""
    settings = run.algorithm.settings
    names = [run.algorithm.name, (settings.get("local") or {}).get("name")]
    texts = [ALGORITHMS[name].bibtex for name in names if name in ALGORITHMS]
    texts.append(BIBTEX_OF_OPTIMIZER.get(settings.get("server_optimizer", "none"), ""))
    return "\n\n".join(filter(None, texts))


def find_dataset_entries(run: RunConfig) -> str:
    """Find the entries of a run's data set; empty for the user's own images."""
    return DATASETS[run.dataset].bibtex if run.dataset in DATASETS else ""


def parse_entries(texts: Iterable[str]) -> dict[str, str]:
    """Parse texts into key -> entry, with the comment lines before it; each entry once."""
    # An algorithm may cite several papers: their entries are one text, separated by blank lines.
    blocks = (block.strip() for text in texts for block in text.split("\n\n"))
    return {ENTRY_KEY.findall(block)[0]: block for block in blocks if block}


def collect_references(runs: Sequence[RunConfig]) -> dict[str, str]:
    """Collect key -> entry for all that runs use: algorithms, data sets, fedgrid."""
    return parse_entries(
        [*map(find_algorithm_entries, runs), *map(find_dataset_entries, runs), format_own_entry()]
    )


def list_uncited(runs: Sequence[RunConfig]) -> list[str]:
    """List the algorithms and data sets that have no entry, with what is stored of their source."""
    lines: dict[str, None] = {}
    for run in runs:
        name = run.algorithm.name
        if not find_algorithm_entries(run):
            origin = ALGORITHMS[name].source if name in ALGORITHMS else "--plugin FILE loads its plugin"
            lines[f"{find_title(name)} ({origin})"] = None
        if run.dataset not in DATASETS:
            lines[f"{run.short_dataset} (your own images)"] = None
    return list(lines)
