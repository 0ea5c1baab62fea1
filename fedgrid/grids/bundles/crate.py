"""Descriptions within a bundle: `ro-crate-metadata.json`, `README.md` and `environment.txt`.

The metadata are an RO-Crate 1.1 with the profile Process Run Crate 0.5 (https://w3id.org/ro/wfrun/process):
fedgrid is the instrument, data sets are what it was used on, and records, tables and figures are the result.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.names import on_hub
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.runtime.integrity.made_with import IMAGES, parts_of
from fedgrid.engine.runtime.run.run_folder import folder_of, last_round
from fedgrid.grids.bundles.layout import CRATE, ENVIRONMENT, README, Listed
from fedgrid.grids.results.times import round_ends
from fedgrid.manifest import BYTES, CODE

ROCRATE = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
MIT = "https://spdx.org/licenses/MIT"


@dataclass(frozen=True)
class About:
    """Facts for the descriptions of a bundle."""

    name: str
    """Name of the grid."""
    version: str
    """Version of fedgrid."""
    runs: int
    ended: str
    """End of the last of its runs, in UTC and ISO 8601; empty if that is not recorded."""
    data: Mapping[str, str]
    """Data set or file of a split -> its digest."""
    made_with: tuple[str, ...]
    """Versions and processors, as in `torch 2.9.0`."""
    with_models: bool

    @property
    def licences(self) -> str:
        """Licences of the code and of the data sets, one in a line."""
        lines = [f"- fedgrid {self.version}: MIT", "- records, tables and figures: ask their authors"]
        return "\n".join((*lines, *(f"- {name}: {_origin(name)[1]}" for name in self.data)))


def about(name: str, runs: Sequence[RunConfig], root: Path, version: str, *, with_models: bool) -> About:
    """Collect the facts about runs.

    Args:
        name: Name of the grid.
        runs: Configurations of the runs.
        root: Folder of their storage.
        version: Version of fedgrid.
        with_models: Whether the bundle has models.
    """
    data: dict[str, str] = {}
    versions: dict[str, None] = {}
    ends = []
    for run in runs:
        folder = folder_of(root, run)
        for part in parts_of(folder):
            data[run.dataset] = part.made_with.get(IMAGES, "")
            kept = {key: value for key, value in part.made_with.items() if key not in (IMAGES, CODE)}
            versions |= dict.fromkeys(f"{key} {value}" for key, value in kept.items())
        # The name of a user's own data ends in its digest.
        data |= {own: own.rpartition("@")[2] for own in run.own_images if own not in data}
        rounds = last_round(folder, run)
        ends.append(round_ends(folder, [rounds])[rounds])
    ended = datetime.fromtimestamp(max(ends) // 1000, UTC).isoformat() if ends else ""
    return About(name, version, len(runs), ended, dict(sorted(data.items())), tuple(versions), with_models)


def environment() -> str:
    """List all installed distributions with their versions, one in a line, without their paths."""
    # Once Ray is imported, its own copies of packages count as installed too.
    found = [one for one in distributions() if "thirdparty_files" not in Path(f"{one.locate_file('')}").parts]
    return "".join(sorted({f"{one.name}=={one.version}\n" for one in found}, key=str.lower))


def readme(told: About) -> str:
    """Format the page that says what the bundle is, and how to check it."""
    data = "\n".join(f"- {name}: {digest}" for name, digest in told.data.items())
    return f"""# {told.name}: {told.runs} runs of federated learning

Made by fedgrid {told.version}. `report/index.html` has the tables and figures, `storage/` what they were
computed from: of each run the configuration, the records of every round and its scores. `bundle.json` lists
all files with their checksums, `environment.txt` the packages where this file was written. Models are
{"in it" if told.with_models else "not in it"}; data sets are not.

## How to check it

    pip install fedgrid=={told.version}
    fedgrid bundle check FILE.zip --sample 5

computes five runs again, drawn by the checksum of this file, and compares every number of their records. It
executes no code of this file before you say `--trust`. Data sets that have a name are downloaded; name your
copy of others with `--data PATH`. `fedgrid import FILE.zip --name NAME` lets you look at all runs.

## Data, by digest

{data}

## Made with

{chr(10).join(f"- {line}" for line in told.made_with)}

## Licences

{told.licences}
"""


def metadata(told: About, files: Listed) -> str:
    """Format `ro-crate-metadata.json` for a bundle with these files."""
    # RO-Crate requires a date. This one is that of the files in the zip, and stands for an unknown one.
    ended = told.ended or "1980-01-01"
    what = f"{told.runs} runs of federated learning with records, scores, tables and figures"
    data = [_of_data(f"#data-{number}", name, told.data[name]) for number, name in enumerate(told.data)]
    root = _entity(
        "./",
        "Dataset",
        conformsTo=_at(PROFILE),
        name=told.name,
        description=what,
        datePublished=ended,
        license=_at("#licences"),
        hasPart=[*map(_at, files)],
        mentions=_at("#runs"),
    )
    action = _entity(
        "#runs",
        "CreateAction",
        name=f"fedgrid run, {told.runs} runs",
        description="; ".join(told.made_with),
        instrument=_at("#fedgrid"),
        object=[_at(entity["@id"]) for entity in data],
        result=[_at(name) for name in files if name not in (README, ENVIRONMENT)],
        endTime=ended,
    )
    code = {"name": "fedgrid", "softwareVersion": told.version, "license": _at(MIT)}
    graph = [
        _entity(CRATE, "CreativeWork", conformsTo=_at(ROCRATE), about=_at("./")),
        root,
        action,
        _entity("#fedgrid", "SoftwareApplication", **code),
        *data,
        _entity(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5"),
        _entity("#licences", "CreativeWork", name="Licences", description=told.licences),
        _entity(MIT, "CreativeWork", name="MIT License"),
        *(_entity(name, "File", contentSize=str(files[name][BYTES])) for name in files),
    ]
    return json.dumps({"@context": f"{ROCRATE}/context", "@graph": graph}, indent=1) + "\n"


def _entity(place: str, kind: str, /, **values: Any) -> dict[str, Any]:
    """Build an entity of the graph."""
    return {"@id": place, "@type": kind, **values}


def _at(name: str) -> dict[str, str]:
    """Build a reference to an entity."""
    return {"@id": name}


def _of_data(place: str, name: str, digest: str) -> dict[str, Any]:
    """Build the entity of a data set."""
    source, licence = _origin(name)
    about = {"name": name, "identifier": digest, "description": source, "license": licence}
    return _entity(place, "CreativeWork", **about)


def _origin(name: str) -> tuple[str, str]:
    """Find where a data set, or the file of a split, is from, and its licence."""
    if name in DATASETS:
        return DATASETS[name].source, DATASETS[name].licence or "not stated"
    if on_hub(name):
        return "Hugging Face hub", "see its page there"
    return "the author's own", "ask them"
