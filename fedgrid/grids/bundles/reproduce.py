"""`fedgrid bundle check`: computes runs of a bundle again, and says what that shows of all of them.

Which runs these are the bundle's checksum says: its author cannot choose them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from math import comb
from pathlib import Path

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.data.datasets import digest_of_dataset
from fedgrid.engine.runtime.integrity.made_with import IMAGES, differing, parts_of
from fedgrid.engine.runtime.leases.scratch import scratch_folder
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.format import manifest_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles.layout import RECORDS, REPORT, STORAGE, group_names
from fedgrid.grids.bundles.needed import check_plugins, know_data, lacking
from fedgrid.grids.bundles.read import Bundle, opened
from fedgrid.grids.bundles.verdicts import Verdict, compare_run, other_scores, other_tables
from fedgrid.grids.display.tables import titled_table
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GRIDS, RUNS, GridFolder
from fedgrid.grids.results.kept_plugins import FOLDER
from fedgrid.grids.results.outcome import SCORES
from fedgrid.manifest import CONFIG
from fedgrid.tracking.tables.table import Table

CONFIDENCE = 0.95
TABLES = "tables"
HERE = version("fedgrid")


@dataclass(frozen=True)
class Asked:
    """What the user asks for."""

    sample: int | None = 5
    """Number of runs; None: all."""
    storage: Storage | None = None
    """Where they are computed; None: in a temporary folder."""
    data: Sequence[Path] = ()
    """Copies of data sets, and of files of splits, that are the author's own."""
    trust: bool = False
    """Whether plugins of the bundle may be executed."""
    show: bool = False
    """Whether their code is printed."""


def reproduce(
    path: Path,
    asked: Asked,
    options: LaunchOptions,
    console: Console,
    tables_of: Callable[..., Iterable[Table]],
) -> bool:
    """Compute runs of a bundle again, and show how they compare; return whether nothing differs.

    `tables_of` returns the tables of the report of a grid, given its name and its storage.

    Raises:
        ConfigError: it is no bundle, a plugin is not trusted, or no run can be tried.
        DataError, RunError: as of `run_grid`.
        KeyboardInterrupt: it was asked to stop.
    """
    with opened(path) as bundle, _storage_for(asked) as storage:
        launcher = Launcher(storage, options, console)
        drawn = draw(bundle.runs, asked.sample, bundle.digest)
        launcher.say(
            f"{path}: grid {bundle.grid.name}, {len(bundle.runs)} runs, sha256 {bundle.digest}; "
            f"{len(drawn)} to compute again"
        )
        know_data(asked.data, bundle.runs)
        check_plugins(bundle, drawn, trust=asked.trust, show=asked.show)
        before = [_before(run, bundle, options.data_dir) for run in drawn]
        todo = [run for run, verdict in zip(drawn, before, strict=True) if verdict is None]
        failed = _compute(todo, bundle, launcher)
        verdicts = [
            (run, verdict or _after(run, bundle, storage, failed.get(run.run_id)))
            for run, verdict in zip(drawn, before, strict=True)
        ]
        root = bundle.storage.root
        older = {run.run_id: made_by for run in bundle.runs if (made_by := _version_of(run, bundle)) != HERE}
        scores = [
            line
            for run in bundle.runs
            for line in other_scores(bundle, run, names_too=run.run_id not in older)
        ]
        tables = None
        if bundle.version == HERE:
            tables = other_tables(tables_of(bundle.grid.name, bundle.storage), root.parent / REPORT / TABLES)
        claims = _claims(bundle, [verdict for _, verdict in verdicts], older)
        _show(bundle, verdicts, scores, tables, claims, launcher)
        outcomes = {verdict.outcome: verdict.why for _, verdict in verdicts}
        if outcomes.keys() == {"not tried"}:
            raise ConfigError(f"{path}: no run could be tried: {outcomes['not tried']}")
        return not (outcomes.keys() & {"differs", "not confirmed"} or scores or tables)


def draw(runs: Sequence[RunConfig], sample: int | None, digest: str) -> list[RunConfig]:
    """Return so many of the runs (None: all), those that come first by a hash of a digest and their ids."""
    return sorted(runs, key=lambda run: sha256(f"{digest} {run.run_id}".encode()).digest())[:sample]


def most_that_differ(runs: int, same: int) -> int:
    """Return how many of `runs` can differ at most, with 95 % confidence, if `same` of them do not.

    The exact bound for a sample without replacement: with more that differ, a sample without any of them has
    a probability of less than 5 %.
    """
    return max(
        differing
        for differing in range(runs - same + 1)
        # The probability that a sample of `same` has none of those that differ.
        if comb(runs - differing, same) > (1 - CONFIDENCE) * comb(runs, same)
    )


@contextmanager
def _storage_for(asked: Asked) -> Iterator[Storage]:
    if asked.storage is not None:
        asked.storage.pull_marks()
        yield asked.storage
        return
    with scratch_folder() as folder:
        yield Storage.of(folder / "runs")


def _before(run: RunConfig, bundle: Bundle, data_dir: Path) -> Verdict | None:
    """Return why a run is not computed, None if it can be."""
    if why := lacking(run, bundle):
        return Verdict("not tried", why)
    parts = parts_of(folder_of(bundle.storage.root, run))
    then = parts[-1].made_with.get(IMAGES, "none") if parts else "none"
    try:
        now = digest_of_dataset(run.dataset, data_dir)
    except (ConfigError, DataError) as error:
        return Verdict("not tried", str(error))
    if then != now:
        return Verdict("differs", f"in its data: {run.dataset} has digest {now[:12]} here, {then[:12]} there")
    return None


def _compute(todo: Sequence[RunConfig], bundle: Bundle, launcher: Launcher) -> Mapping[str, str]:
    """Compute runs; return run id -> why it failed."""
    name = f"reproduced-{bundle.digest[:12]}"
    folder = GridFolder(launcher.storage, name)
    before = {run.run_id for run in folder.read().every} if folder.is_there else set()
    for run in todo:
        if run.run_id not in before and folder_of(launcher.storage.root, run).exists():
            raise ConfigError(
                f"{launcher.storage} has {run.name} already, which would not be computed: name a --storage "
                "without it, or none"
            )
    return _launch(todo, name, f"# Runs of {bundle.path.name}, computed again.\n", launcher) if todo else {}


def _launch(todo: Sequence[RunConfig], name: str, text: str, launcher: Launcher) -> dict[str, str]:
    """Launch runs as a grid; those that are refused are found by halves, and the others computed."""
    try:
        result = launcher.run(Grid(name, tuple(todo), text))
    except (ConfigError, DataError) as error:
        if len(todo) == 1:
            return {todo[0].run_id: str(error)}
        half = len(todo) // 2
        return _launch(todo[:half], name, text, launcher) | _launch(todo[half:], name, text, launcher)
    if result.stopped:
        raise KeyboardInterrupt
    return {run.run_id: run.cause for run in result.failures}


def _after(run: RunConfig, bundle: Bundle, storage: Storage, failure: str | None) -> Verdict:
    if failure is not None:
        return Verdict("not tried", failure)
    theirs, ours = folder_of(bundle.storage.root, run), folder_of(storage.root, run)
    if not (here := parts_of(ours)):
        return Verdict("not tried", "its files are not here: name a --storage that all machines reach")
    parts = [differing(part.made_with, here[-1].made_with) for part in parts_of(theirs)]
    return compare_run(run, theirs, ours, list(dict.fromkeys(line for part in parts for line in part)))


def _show(
    bundle: Bundle,
    verdicts: Sequence[tuple[RunConfig, Verdict]],
    scores: Sequence[str],
    tables: Sequence[str] | None,
    claims: Sequence[str],
    launcher: Launcher,
) -> None:
    table = titled_table("Computed again", launcher.console.width)
    for heading in ("run", "verdict", ""):
        table.add_column(heading)
    for run, verdict in verdicts:
        table.add_row(run.name, verdict.outcome, verdict.why)
    if not launcher.options.as_json:
        launcher.console.print(table)
    runs = len(bundle.runs)
    proof = _proof(runs, Counter(verdict.outcome for _, verdict in verdicts))
    unchecked = _unchecked(bundle, verdicts, with_tables=tables is not None)
    launcher.say(*proof, *_of_records(bundle, scores, tables, claims), *_of_rest(unchecked, claims))
    rows = [{"run": run.name, "run_id": run.run_id, **asdict(verdict)} for run, verdict in verdicts]
    tried = sum(verdict.outcome != "not tried" for _, verdict in verdicts)
    facts = {"runs": runs, "tried": tried, "verdicts": rows, "wrong_scores": scores}
    facts |= {"wrong_tables": tables, "unchecked": unchecked, "claims": claims, "proof": proof[0]}
    launcher.event("reproduced", bundle=bundle.digest, grid=bundle.grid.name, **facts)


def _proof(runs: int, counts: Counter[str]) -> list[str]:
    """Return what the verdicts on some of `runs` show of all of them, by how many there are of each."""
    drawn, left = counts.total(), counts["not tried"]
    tried = drawn - left
    line = f"{tried} of {runs} recomputed"
    if counts["differs"] or counts["not confirmed"]:
        found = {"differ": counts["differs"], "not confirmed": counts["not confirmed"]}
        line += "".join(f", {count} of them {word}" for word, count in found.items() if count)
    elif tried:
        line += ", all the same" if counts["same bytes"] == tried else ", all with the same decisions"
        share = 100 * most_that_differ(runs, tried) / runs
        whole = "those that can be tried here" if left else "the runs"
        line += f": with 95 % confidence at most {share:.0f} % of {whole} differ" if drawn < runs else ""
    of_others = f"{left} could not be tried, and are not counted: nothing is shown of runs like these."
    return [f"{line}.", *([of_others] if left else [])]


def _of_records(
    bundle: Bundle, scores: Sequence[str], tables: Sequence[str] | None, claims: Sequence[str]
) -> list[str]:
    """Return what follows from the records, or does not; `claims` are as of `_claims`."""
    lines = [
        f"{what} that do not follow from the records: {'; '.join(wrong[:5])}"
        for what, wrong in (("Scores", scores), ("Tables", tables))
        if wrong
    ]
    if not lines:
        also = "" if tables is None else ", and the tables (csv),"
        but = ", but for what rests on the author's word" if claims else ""
        lines.append(f"The scores of all {len(bundle.runs)} runs{also} follow from their records{but}.")
    return lines


def _unchecked(
    bundle: Bundle, verdicts: Sequence[tuple[RunConfig, Verdict]], *, with_tables: bool
) -> list[str]:
    """Return the files of a bundle that were compared with nothing; a pattern for those of one kind."""
    grid = f"{STORAGE}/{GRIDS}/{bundle.grid.name}"
    checked = {f"{grid}/{RUNS}"}
    for run in bundle.runs:
        checked |= {f"{_place(run)}/{CONFIG}", f"{_place(run)}/{SCORES}"}
        checked |= {f"{grid}/{FOLDER}/{digest}.py" for digest in run.plugin_digests}
    for run, verdict in verdicts:
        if verdict.outcome != "not tried":
            checked |= {f"{_place(run)}/{name}" for name in RECORDS}
        if verdict.outcome == "same bytes":
            manifest = manifest_of(folder_of(bundle.storage.root, run))
            checked |= {f"{_place(run)}/{name}" for name in manifest.states.get(manifest.rounds_done, ())}
    if with_tables:
        checked |= {name for name in bundle.files if re.fullmatch(rf"{REPORT}/{TABLES}/.*\.csv", name)}
    return group_names(name for name in bundle.files if name not in checked)


def _place(run: RunConfig) -> str:
    return folder_of(Path(STORAGE), run).as_posix()


def _version_of(run: RunConfig, bundle: Bundle) -> str:
    """Return the version of fedgrid that made a run, as the bundle says; this one if it does not."""
    parts = parts_of(folder_of(bundle.storage.root, run))
    return parts[-1].made_with.get("fedgrid", HERE) if parts else HERE


def _claims(bundle: Bundle, verdicts: Sequence[Verdict], older: Mapping[str, str]) -> list[str]:
    """Return what is compared less strictly, or not at all, because of what the bundle says of itself.

    `older` has the ids of runs of another version of fedgrid, with that version.
    """
    lines = []
    if within := [verdict for verdict in verdicts if verdict.claims]:
        said = dict.fromkeys(claim for verdict in within for claim in verdict.claims)
        lines.append(f"{len(within)} runs count as the same, but not to the byte ({', '.join(said)})")
    if older:
        made_by = ", ".join(sorted({*older.values()}))
        which = f"of {len(older)} runs (made by fedgrid {made_by}, this is {HERE})"
        lines.append(f"scores that only one of the two has are not compared, {which}")
    if bundle.version != HERE:
        lines.append(f"tables are not compared (made by fedgrid {bundle.version}, this is {HERE})")
    return lines


def _of_rest(unchecked: Sequence[str], claims: Sequence[str]) -> list[str]:
    """Return what was not compared, and last what rests on the bundle's own word."""
    lines = [f"Not checked: {', '.join(unchecked)}; `fedgrid import`, then `report`, draws the report anew."]
    return [*lines, f"On the author's word alone: {'; '.join(claims)}."] if claims else lines
