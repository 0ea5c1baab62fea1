"""`fedgrid import FILE.zip`: the runs of a bundle in a storage, marked as somebody else's."""

import json
from pathlib import Path
from shutil import copyfile

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.atomic import disk_errors, write_text
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles.layout import RUN_FILES
from fedgrid.grids.bundles.read import Bundle, opened
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.planning.claims import launch_claims
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.imported import IMPORTED, grid_of, seal_import


def import_bundle(path: Path, name: str, storage: Storage, *, as_json: bool, console: Console) -> None:
    """Take the runs of a bundle into a storage as grid `name`; those that it has already are left alone.

    Raises:
        ConfigError: it is no bundle, or `name` is a grid with runs that were not imported as it.
        RunError: the storage cannot be written.
    """
    with opened(path) as bundle:
        storage.pull_marks()
        storage.check_writable()
        grid = GridFolder(storage, name)
        before = grid.read().every if grid.is_there else ()
        if any(grid_of(folder_of(storage.root, run)) != name for run in before):
            raise ConfigError(f"grid {name} has runs that were computed here; choose another --name")
        new = [run for run in bundle.runs if not folder_of(storage.root, run).exists()]
        with Lease(storage, name, launch_claims(bundle.runs, new), warn):
            claim(storage)
            for run in new:
                _take(run, bundle, name, storage)
            digests = {digest for run in bundle.runs for digest in run.plugin_digests}
            for file, data in kept_plugins.copies(bundle.grid.path, digests).items() if digests else ():
                grid.write(file, data)
            grid.keep(bundle.runs, bundle.grid.preset().decode(errors="replace"))
    there = len(bundle.runs) - len(new)
    if as_json:
        print(json.dumps({"grid": name, "runs": len(bundle.runs), "imported": len(new), "unchanged": there}))
        return
    print_plain(console, f"{name}: {len(new)} runs imported, {there} were there already and are unchanged")
    print_plain(console, f"Next:  {command(storage, 'report', name)}")


def _take(run: RunConfig, bundle: Bundle, name: str, storage: Storage) -> None:
    """Copy a run without its models; what says whose it is comes before the mark of a finished run."""
    theirs, ours = (folder_of(place.root, run) for place in (bundle.storage, storage))
    with disk_errors(ours):
        ours.mkdir(parents=True)
        write_text(ours / IMPORTED, seal_import(run.run_id, name, bundle.digest))
        files = [file for file in RUN_FILES if (theirs / file).exists() and file != IMPORTED]
        for file in files:
            copyfile(theirs / file, ours / file)
        storage.push(*(f"{ours.name}/{file}" for file in (IMPORTED, *files)))
