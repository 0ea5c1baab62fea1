"""The command `fedgrid bundle make`: the finished runs of a grid as one file, without what is private.

The files that go in are listed, not those that stay out: no log, no address of a tracker, no path except a
file's own name.
"""

import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from shutil import copyfile

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data.own_images import PLACES
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.atomic import REPEATS, disk_errors
from fedgrid.engine.runtime.storage.format import load_manifest
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import check_output, make_absolute
from fedgrid.grids.analyses.run_selection import find_runs, split_finished
from fedgrid.grids.bundles import crate
from fedgrid.grids.bundles.layout import (
    CRATE,
    ENVIRONMENT,
    MANIFEST,
    README,
    REPORT,
    RUN_FILES,
    STORAGE,
    SUFFIX,
    list_files,
    write_zip,
)
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.import_marks import IMPORTED
from fedgrid.redaction import redact_secrets
from fedgrid.sealed_json import seal_values

FOLDERS = re.compile(r"(?<![\w./~-])(?:~\w*|[A-Za-z]:)?/(?:[^\s/'\",\]}]+/)*(?=[^\s/'\",\]}])")
"""Pattern of the folders of a path that holds on one machine only: `/home/me/` of `/home/me/mine.csv`."""


def write_bundle(
    source: str,
    storage: Storage,
    filters: Sequence[str],
    target: Path,
    *,
    with_models: bool,
    report: Callable[[str, Storage, Path], object],
) -> int:
    """Write the finished runs of a grid that meet all filters.

    Args:
        source: The grid, or a run of it.
        storage: Storage of the grid.
        filters: Conditions on the runs.
        target: The file to write, which must end in `.zip`.
        with_models: Whether the runs' last states go in.
        report: Writes the report of a grid of a storage into a folder.

    Returns:
        The number of runs.

    Raises:
        ConfigError: `target` is no zip or cannot be written, there is no such grid or run, or none of the
            runs is finished.
        RunError: Files of the grid are damaged, or the bundle cannot be written.
    """
    if target.suffix != SUFFIX:
        raise ConfigError(f"--output {target}: expected a file's name that ends in {SUFFIX}")
    target = make_absolute(target, "--output")
    check_output(target, "--output")
    storage.pull_marks()
    name, runs = find_runs(source, storage, filters)
    finished, _ = split_finished(name, runs, storage, "bundle")
    with create_scratch_folder() as place:
        folder = place / "bundle"
        with disk_errors(place, REPEATS):
            # A storage of its own has only what is copied into it; the report is drawn from that.
            staged = Storage.from_text(folder / STORAGE)
            for run in finished:
                _stage_run(run, storage, staged, with_models=with_models)
            _stage_grid(name, finished, storage, staged)
            report(name, staged, folder / REPORT)
            bundle_facts = crate.collect_facts(
                name, finished, staged.root, version("fedgrid"), with_models=with_models
            )
            (folder / README).write_text(crate.format_readme(bundle_facts))
            (folder / ENVIRONMENT).write_text(crate.list_distributions())
            # The order matters: the crate lists the files before it, and the list of all files comes last.
            (folder / CRATE).write_text(crate.format_metadata(bundle_facts, list_files(folder)))
            facts = {
                "grid": name,
                "filters": [*filters],
                "runs": len(finished),
                "fedgrid": bundle_facts.version,
            }
            (folder / MANIFEST).write_text(seal_values({**facts, "files": list_files(folder)}, indent=1))
        with disk_errors(target, REPEATS):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_zip(folder, target)
    return len(finished)


def _stage_run(run: RunConfig, storage: Storage, staged: Storage, *, with_models: bool) -> None:
    """Copy a run's files to the storage that is packed."""
    folder, copy = build_folder_path(storage.root, run), build_folder_path(staged.root, run)
    storage.pull(folder.name, skip=() if with_models else ("state-",))
    states = [name for name in load_manifest(folder).files if name.startswith("state-")]
    copy.mkdir(parents=True)
    for name in (*RUN_FILES, IMPORTED, *(states if with_models else ())):
        if (folder / name).exists():
            copyfile(folder / name, copy / name)


def _stage_grid(name: str, runs: Sequence[RunConfig], storage: Storage, staged: Storage) -> None:
    """Write the grid's files to the storage that is packed, without paths and secrets."""
    grid, copy = GridFolder(storage, name), GridFolder(staged, name)
    for file, data in stored_plugins.read_plugin_files(grid.path, runs).items():
        copy.write_file(file, data)
    text = grid.read_preset().decode(errors="replace").replace(str(Path.home()), "~")
    copy.keep(runs, FOLDERS.sub("", redact_secrets(text)))
    # This file has the paths of the author's own data.
    (copy.path / PLACES).unlink(missing_ok=True)
