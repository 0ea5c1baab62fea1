"""The page of what `fedgrid` exports, for mkdocstrings."""

import fedgrid
from docs.reference.markdown import page

GROUPS = {
    "Running and reading": ("run", "load", "RunConfig", "RunResult", "Study", "figures", "FedgridError"),
    "Algorithms of your own": (
        "AlgorithmEntry",
        "FedOpt",
        "FedOptSettings",
        "Ocfl",
        "OcflSettings",
        "Clusterer",
        "ModelEntry",
        "split_positions",
    ),
    "Analyses of your own": ("Analysis", "AnalysisSettings", "Artifacts"),
}
"""The other names follow under `REST`."""
REST = "The contract between server and clients"


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    named = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, REST: tuple(name for name in fedgrid.__all__ if name not in named)}
    parts = [
        part
        for title, names in groups.items()
        for part in (f"## {title}", *(f"::: {_path(name)}" for name in names))
    ]
    return {
        "reference/api.md": page(
            "# Python",
            "Everything that `import fedgrid` offers. These names stay; all others may move. "
            "An algorithm of your own: [how to](../own-algorithm.md), [the contract](../contract.md).",
            *parts,
        )
    }


def _path(name: str) -> str:
    """Return where a name is defined."""
    if name == "figures":
        return "fedgrid.tracking.figures"
    if name in fedgrid._MODULES:
        return f"fedgrid.{fedgrid._MODULES[name]}.{name}"
    return f"{getattr(fedgrid, name).__module__}.{name}"
