"""The option `fedgrid arena --check N`: computes some of the stored results again, and compares."""

from dataclasses import replace
from typing import TypeVar

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.stored_results import StoredResults, read_outcomes
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.execution.watch import LaunchResult
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, SCORES, Outcome

T = TypeVar("T")


def run_check(arena: Arena, stored: StoredResults, count: int, launcher: Launcher) -> LaunchResult:
    """Run `count` of the runs with a stored result, spread evenly over these, and compare.

    Args:
        arena: The arena.
        stored: Results that come with fedgrid.
        count: Number of distinct runs.
        launcher: Runs the grid and shows the comparison.

    Raises:
        ConfigError: None of the arena's rows is stored, or the grid cannot be run.
    """
    tuned_on = arena.dataset_in_files
    tuned = {
        (method, protocol): stored.tuned.get((tuned_on, method, protocol, arena.trials))
        for method in arena.competitors
        for protocol in PROTOCOLS
    }
    entries = arena.build_entries({row: one.params for row, one in tuned.items() if one is not None})
    outcomes, missing = stored.split_entries(entries)
    lines = {outcome.key for outcome in outcomes}
    with_result = [(row, run) for row, run in entries if (row, run) not in missing]
    if not lines:
        raise ConfigError(
            f"fedgrid keeps no result of these rows of {arena.dataset}: leave out overrides, --seeds, "
            "--trials or --dataset"
        )
    # Several rows may have the same run. Reversed twice, so that the first row of a run stands for it.
    distinct = {run.run_id: (row, run) for row, run in reversed(with_result)}
    chosen = spread_evenly([*distinct.values()][::-1], count)
    # A grid of its own, so that the arena's next command does not take these runs for its rows.
    grid = replace(arena.build_grid(chosen), name=f"{arena.name}-check")
    result = launcher.run_unfinished(grid)
    before = {outcome.key: outcome for outcome in outcomes}
    again = read_outcomes(grid.name, chosen, launcher.storage)
    words = [describe_difference(before[outcome.key], outcome) for outcome in again]
    equal = sum(not _list_differing(before[outcome.key], outcome) for outcome in again)
    launcher.print_event("check", results=len(again), equal=equal, differences=words)
    launcher.print_lines(*words, f"{equal} of {len(again)} results are the kept ones in every digit")
    return result


def spread_evenly(items: list[T], count: int) -> list[T]:
    """Select up to `count` items, evenly spread over the list, the first among them."""
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]


def describe_difference(before: Outcome, now: Outcome) -> str:
    """Describe how far a result is from the stored one."""
    parts = [
        f"{name} {getattr(before, name):.6g}, now {getattr(now, name):.6g}"
        for name in _list_differing(before, now)
    ]
    run = f"{now.method} ({now.settings}, {now.protocol}), {now.family}, seed {now.seed}"
    made = [
        f"{name} {before.made_with[name]} then, {now.made_with[name]} now"
        for name in before.made_with
        if name in now.made_with and before.made_with[name] != now.made_with[name]
    ]
    return "; ".join([f"{run}: {', '.join(parts) or 'the same'}", *made])


def _list_differing(before: Outcome, now: Outcome) -> list[str]:
    """List the scores in which two outcomes differ, with six digits as in the file."""
    return [name for name in SCORES if f"{getattr(before, name):.6g}" != f"{getattr(now, name):.6g}"]
