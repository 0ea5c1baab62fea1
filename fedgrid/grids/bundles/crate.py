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
from fedgrid.engine.federation.data.names import parse_hub_name
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.runtime.integrity.made_with import IMAGES, load_parts
from fedgrid.engine.runtime.run.run_folder import build_folder_path, find_last_round
from fedgrid.grids.bundles.layout import CRATE, ENVIRONMENT, README, FileList
from fedgrid.grids.results.times import read_round_ends
from fedgrid.manifest import BYTES, CODE

ROCRATE = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
MIT = "https://spdx.org/licenses/MIT"


@dataclass(frozen=True)
class BundleFacts:
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
        return "\n".join((*lines, *(f"- {name}: {_find_origin(name)[1]}" for name in self.data)))


def collect_facts(
    name: str, runs: Sequence[RunConfig], root: Path, version: str, *, with_models: bool
) -> BundleFacts:
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
        folder = build_folder_path(root, run)
        for part in load_parts(folder):
            data[run.dataset] = part.made_with.get(IMAGES, "")
            made_with = {key: value for key, value in part.made_with.items() if key not in (IMAGES, CODE)}
            versions |= dict.fromkeys(f"{key} {value}" for key, value in made_with.items())
        # The name of a user's own data ends in its digest.
        data |= {own: own.rpartition("@")[2] for own in run.own_images if own not in data}
        rounds = find_last_round(folder, run)
        ends.append(read_round_ends(folder, [rounds])[rounds])
    ended = datetime.fromtimestamp(max(ends) // 1000, UTC).isoformat() if ends else ""
    return BundleFacts(
        name, version, len(runs), ended, dict(sorted(data.items())), tuple(versions), with_models
    )


def list_distributions() -> str:
    """List all installed distributions with their versions, one in a line, without their paths."""
    # Once Ray is imported, its own copies of packages count as installed too.
    installed = [
        one for one in distributions() if "thirdparty_files" not in Path(f"{one.locate_file('')}").parts
    ]
    return "".join(sorted({f"{one.name}=={one.version}\n" for one in installed}, key=str.lower))


def format_readme(facts: BundleFacts) -> str:
    """Format the page that says what the bundle is, and how to check it."""
    data = "\n".join(f"- {name}: {digest}" for name, digest in facts.data.items())
    return f"""# {facts.name}: {facts.runs} runs of federated learning

Made by fedgrid {facts.version}. `report/index.html` has the tables and figures, `storage/` what they were
computed from: of each run the configuration, the records of every round and its scores. `bundle.json` lists
all files with their checksums, `environment.txt` the packages where this file was written. Models are
{"in it" if facts.with_models else "not in it"}; data sets are not.

## How to check it

    pip install fedgrid=={facts.version}
    fedgrid bundle check FILE.zip --sample 5

computes five runs again, drawn by the checksum of this file, and compares every number of their records. It
executes no code of this file before you say `--trust`. Data sets that have a name are downloaded; name your
copy of others with `--data PATH`. `fedgrid import FILE.zip --name NAME` lets you look at all runs.

## Data, by digest

{data}

## Made with

{chr(10).join(f"- {line}" for line in facts.made_with)}

## Licences

{facts.licences}
"""


def format_metadata(facts: BundleFacts, files: FileList) -> str:
    """Format `ro-crate-metadata.json` for a bundle with these files."""
    # RO-Crate requires a date. This one is that of the files in the zip, and stands for an unknown one.
    ended = facts.ended or "1980-01-01"
    description = f"{facts.runs} runs of federated learning with records, scores, tables and figures"
    data = [
        _build_data_entity(f"#data-{number}", name, facts.data[name])
        for number, name in enumerate(facts.data)
    ]
    root = _build_entity(
        "./",
        "Dataset",
        conformsTo=_build_reference(PROFILE),
        name=facts.name,
        description=description,
        datePublished=ended,
        license=_build_reference("#licences"),
        hasPart=[*map(_build_reference, files)],
        mentions=_build_reference("#runs"),
    )
    action = _build_entity(
        "#runs",
        "CreateAction",
        name=f"fedgrid run, {facts.runs} runs",
        description="; ".join(facts.made_with),
        instrument=_build_reference("#fedgrid"),
        object=[_build_reference(entity["@id"]) for entity in data],
        result=[_build_reference(name) for name in files if name not in (README, ENVIRONMENT)],
        endTime=ended,
    )
    code = {"name": "fedgrid", "softwareVersion": facts.version, "license": _build_reference(MIT)}
    graph = [
        _build_entity(
            CRATE, "CreativeWork", conformsTo=_build_reference(ROCRATE), about=_build_reference("./")
        ),
        root,
        action,
        _build_entity("#fedgrid", "SoftwareApplication", **code),
        *data,
        _build_entity(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5"),
        _build_entity("#licences", "CreativeWork", name="Licences", description=facts.licences),
        _build_entity(MIT, "CreativeWork", name="MIT License"),
        *(_build_entity(name, "File", contentSize=str(files[name][BYTES])) for name in files),
    ]
    return json.dumps({"@context": f"{ROCRATE}/context", "@graph": graph}, indent=1) + "\n"


def _build_entity(place: str, kind: str, /, **values: Any) -> dict[str, Any]:
    """Build an entity of the graph."""
    return {"@id": place, "@type": kind, **values}


def _build_reference(name: str) -> dict[str, str]:
    """Build a reference to an entity."""
    return {"@id": name}


def _build_data_entity(place: str, name: str, digest: str) -> dict[str, Any]:
    """Build the entity of a data set."""
    source, licence = _find_origin(name)
    about = {"name": name, "identifier": digest, "description": source, "license": licence}
    return _build_entity(place, "CreativeWork", **about)


def _find_origin(name: str) -> tuple[str, str]:
    """Find where a data set, or the file of a split, is from, and its licence."""
    if name in DATASETS:
        return DATASETS[name].source, DATASETS[name].licence or "not stated"
    if parse_hub_name(name):
        return "Hugging Face hub", "see its page there"
    return "the author's own", "ask them"
