"""The point at which a run goes on: its newest undamaged state, with all records up to it.

Its manifest and the one before it each list two states. A damaged state costs its round; damaged records or a
damaged manifest cost the rounds since the manifest before.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.storage.format import DamagedFile, load_manifest, read_errors
from fedgrid.manifest import (
    MANIFEST,
    PREVIOUS_MANIFEST,
    STATE,
    Manifest,
    is_round_file,
    open_listed,
    read_manifest,
)


@dataclass(frozen=True)
class ResumePoint:
    """What of a run is complete, and what is not."""

    manifest: Manifest | None = None
    """A manifest whose records are complete, perhaps of later rounds than the state; None: all rounds are to
    run."""
    run_state: RunState | None = None
    """The state to go on from; None before the first round."""
    files_to_set_aside: Sequence[str] = ()
    """Files that are damaged, or of rounds that are run again."""
    warnings: Sequence[str] = ()
    """The reasons, in one line each; none if all is complete."""


def find_resume_point(folder: Path) -> ResumePoint:
    """Find where the run in a folder goes on; nothing is changed.

    Raises:
        FinalError: every state is damaged.
        OtherVersion: another fedgrid wrote it.
        UnreadableFile: a file cannot be read at present.
    """
    # 1. The manifest, then the one before it, whichever are complete.
    manifests, reasons = _read_manifests(folder)
    aside = [MANIFEST] if reasons else []
    bad_states: dict[int, str] = {}
    for manifest in manifests:
        if not manifest.rounds_done:
            return ResumePoint(manifest, None, aside, reasons)
        # 2. A manifest needs all of its records: one damaged table would leave a hole.
        bad_records = _find_damaged_records(folder, manifest)
        aside += bad_records
        reasons += bad_records.values()
        # 3. Its newest state that can be loaded. Both manifests may list a state, which is tried once.
        for number in sorted(set(manifest.states) - set(bad_states), reverse=True):
            try:
                run_state = checkpoint.load_state(folder, number, manifest)
            except DamagedFile as error:
                bad_states[number] = str(error)
                continue
            # 4. Go on there. States are loaded even where records are bad, to see whether any is left at all.
            # Later states are set aside, since their rounds are run again.
            if not bad_records:
                listed = {name for each in manifests for name in each.files if STATE.fullmatch(name)}
                undamaged = {
                    name for each in manifest.states if each <= number for name in manifest.states[each]
                }
                lines = [
                    f"{line}: rounds after {number} are run again"
                    for line in (*reasons, *bad_states.values())
                ]
                return ResumePoint(
                    manifest, run_state, [*aside, *sorted(listed - undamaged)] if lines else [], lines
                )
    # 5. Neither manifest serves. The run starts again, unless its states are all damaged, which no crash
    # does: a person has to decide.
    files = sorted(os.listdir(folder)) if manifests or reasons else []
    # The states of a finished run may have been deleted for their size: then it is computed again.
    has_states = any(map(STATE.fullmatch, files)) or not (manifests and manifests[0].is_finished)
    if bad_states and has_states and all({*each.states} <= {*bad_states} for each in manifests):
        states = "; ".join(bad_states.values())
        raise FinalError(f"every state is damaged: {states}; move {folder} away to start over")
    if not files:
        return ResumePoint()
    line = f"{'; '.join((*reasons, *bad_states.values()))}: all rounds are run again"
    return ResumePoint(None, None, [MANIFEST, *filter(is_round_file, files)], [line])


def _read_manifests(folder: Path) -> tuple[list[Manifest], list[str]]:
    """Read a run's manifest and the one before it, if they are undamaged.

    Returns:
        Those manifests, the newest first; and what is wrong with the newest.
    """
    try:
        now, reasons = [load_manifest(folder)], list[str]()
    except FileNotFoundError:
        return [], []
    except DamagedFile as error:
        now, reasons = [], [str(error)]
    try:
        with read_errors(folder / PREVIOUS_MANIFEST):
            before = [read_manifest(folder, PREVIOUS_MANIFEST)]
    except (FileNotFoundError, DamagedFile):
        before = []
    return now + [each for each in before if each not in now], reasons


def _find_damaged_records(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Find the damaged files of records that a manifest lists, and what is wrong with each."""
    damaged = {}
    for name in manifest.files:
        if is_round_file(name) and not STATE.fullmatch(name):
            try:
                with read_errors(folder / name):
                    open_listed(folder, manifest, name).close()
            except DamagedFile as error:
                damaged[name] = str(error)
    return damaged
