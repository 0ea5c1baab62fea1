"""The command `fedgrid import FILE.zip`: stores the runs of a bundle, marked as imported."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from shutil import copyfile

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.format import compute_checksum
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Content, Storage
from fedgrid.grids.bundles.layout import RECORDS, RUN_FILES, STORAGE, group_names
from fedgrid.grids.bundles.read_bundle import Bundle, open_bundle
from fedgrid.grids.bundles.verdicts import list_other_scores
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.planning.keys import make_launch_keys
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.grid_folder import PRESET, GridFolder
from fedgrid.grids.results.import_marks import IMPORTED, read_import_grid, seal_import
from fedgrid.grids.results.outcome import read_scores
from fedgrid.manifest import CONFIG, MANIFEST, TIMES
from fedgrid.redaction import escape_controls

BUNDLE = "bundle "
"""Prefix of the SHA-256 of the bundle in the source of an imported grid."""


def import_bundle(path: Path, name: str, storage: Storage, *, as_json: bool, console: Console) -> None:
    """Store the runs of a bundle as grid `name`; those that were computed there stay.

    Args:
        path: The bundle.
        name: Name of the grid.
        storage: Storage of the grid.
        as_json: Whether JSON is printed instead of lines.
        console: Where lines are shown.

    Raises:
        ConfigError: It is no bundle, or `name` is a grid with runs that were not imported as it.
        RunError: The storage cannot be written.
    """
    with open_bundle(path) as bundle:
        storage.pull_marks()
        storage.check_writable()
        grid = GridFolder(storage, name)
        if grid.is_there and not grid.read_definition().source.startswith(BUNDLE):
            raise ConfigError(f"grid {name} was launched here, not imported; choose another --name")
        new = [run for run in bundle.runs if _is_lacking(run, bundle, name, storage)]
        with Lease(storage, name, make_launch_keys(bundle.runs, new), warn):
            claim_storage_id(storage)
            for run in new:
                _import_run(run, bundle, name, storage)
            # Runs come first: a grid that was written by half must not list runs that are not there.
            for file, data in stored_plugins.read_plugin_files(bundle.grid.path, bundle.runs).items():
                grid.write_file(file, data)
            text = bundle.grid.read_preset().decode(errors="replace")
            grid.keep(bundle.runs, text, f"{BUNDLE}{bundle.digest}")
        # Files of a run that was computed here are never replaced.
        if others := [run.name for run in bundle.runs if _is_other(run, bundle, storage, RECORDS)]:
            warn(
                f"{len(others)} runs, such as {others[0]}, are here with other records; the bundle's "
                "are not taken: another --storage takes them"
            )
        _warn_about_scores(bundle)
    there = len(bundle.runs) - len(new)
    on_word, left_out = _group_imported_files(bundle)
    if as_json:
        counts = {"runs": len(bundle.runs), "imported": len(new), "unchanged": there}
        print(json.dumps({"grid": name, **counts, "on_author_word": on_word, "not_imported": left_out}))
        return
    print_plain(console, f"{name}: {len(new)} runs imported, {there} were there already and are unchanged")
    print_plain(
        console,
        f"On the author's word: {', '.join(on_word)}; `fedgrid bundle check {path}` computes runs again",
    )
    print_plain(console, f"Not imported: {', '.join(left_out)}; `fedgrid report` draws its own")
    print_plain(console, f"Next:  {format_command(storage, 'report', name)}")


def _warn_about_scores(bundle: Bundle) -> None:
    """Warn if final scores that the author wrote do not follow from the records, and are left out."""
    names: dict[str, None] = {}
    count = 0
    for run in bundle.runs:
        theirs, ours = (
            bundle.scores[run.run_id],
            read_scores(build_folder_path(bundle.storage.root, run), run.run_id),
        )
        if wrong := [name for name in list_other_scores(theirs, ours) if name in theirs]:
            names |= dict.fromkeys(wrong)
            count += 1
    if names:
        warn(
            f"scores of {count} of {len(bundle.runs)} runs are left out, as they do not follow from the "
            f"records: {', '.join(map(escape_controls, names))}; those here are computed"
        )


def _group_imported_files(bundle: Bundle) -> tuple[list[str], list[str]]:
    """Group the files that are imported as the author wrote them, and those that are not imported."""
    taken = (*RECORDS[1:], MANIFEST, TIMES, PRESET)
    on_word = (name for name in bundle.files if PurePosixPath(name).name in taken)
    outside = (name for name in bundle.files if not name.startswith(f"{STORAGE}/"))
    return group_names(on_word), group_names(outside)


def _is_lacking(run: RunConfig, bundle: Bundle, name: str, storage: Storage) -> bool:
    """Check whether a run is missing, or was imported as grid `name` with other files, or in part."""
    folder = build_folder_path(storage.root, run)
    # An import that was killed may have left a folder with neither.
    if not any((folder / file).exists() for file in (CONFIG, IMPORTED)):
        return True
    storage.pull(folder.name, skip=("state-",))
    return read_import_grid(folder) == name and _is_other(run, bundle, storage, RUN_FILES)


def _is_other(run: RunConfig, bundle: Bundle, storage: Storage, names: Sequence[str]) -> bool:
    """Check whether one of these files of a run in the bundle differs from that in the storage."""
    theirs, ours = (build_folder_path(place.root, run) for place in (bundle.storage, storage))
    return any(
        not (ours / name).exists() or compute_checksum(ours / name) != compute_checksum(theirs / name)
        for name in names
        if (theirs / name).exists()
    )


def _import_run(run: RunConfig, bundle: Bundle, name: str, storage: Storage) -> None:
    """Copy a run without its models.

    The mark that it was imported is written before the mark of a finished run.
    """
    theirs, ours = (build_folder_path(place.root, run) for place in (bundle.storage, storage))
    # `put` writes in this order: a run that counts as finished must not be taken for one that was computed
    # here.
    files: dict[str, Content] = {IMPORTED: seal_import(run.run_id, name, bundle.digest).encode()}
    files |= {file: partial(copyfile, theirs / file) for file in RUN_FILES if (theirs / file).exists()}
    with disk_errors(ours):
        storage.put({f"{ours.name}/{file}": content for file, content in files.items()})
