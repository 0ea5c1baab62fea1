"""`fedgrid reproduce`: computes runs of a bundle again, and says what that shows of all of them.

Which runs these are the bundle's checksum says: its author cannot choose them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import comb
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.data.datasets import digest_of_dataset
from fedgrid.engine.runtime.integrity.made_with import IMAGES, MADE_WITH, differing, parts_of
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles.layout import REPORT
from fedgrid.grids.bundles.needed import check_plugins, know_data, lacking
from fedgrid.grids.bundles.read import Bundle, opened
from fedgrid.grids.bundles.verdicts import Verdict, compare_run, other_scores, other_tables
from fedgrid.grids.display.tables import titled_table
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.tables.table import Table

CONFIDENCE = 0.95
TABLES = "tables"


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
        drawn = draw(bundle.runs, len(bundle.runs) if asked.sample is None else asked.sample, bundle.digest)
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
        scores = [line for run in bundle.runs for line in other_scores(run, folder_of(root, run))]
        tables = other_tables(tables_of(bundle.grid.name, bundle.storage), root.parent / REPORT / TABLES)
        return _show(bundle, verdicts, scores, tables, launcher)


def draw(runs: Sequence[RunConfig], sample: int, digest: str) -> list[RunConfig]:
    """Return so many of the runs: those that come first by a hash of a digest and their ids."""
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
    with TemporaryDirectory(prefix="fedgrid-reproduce-") as folder:
        yield Storage.of(folder)


def _before(run: RunConfig, bundle: Bundle, data_dir: Path) -> Verdict | None:
    """Return why a run is not computed, None if it can be."""
    if why := lacking(run, bundle):
        return Verdict("not tried", why)
    then = parts_of(folder_of(bundle.storage.root, run) / MADE_WITH)[-1].made_with.get(IMAGES, "none")
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
    if not todo:
        return {}
    result = launcher.run(Grid(name, tuple(todo), f"# Runs of {bundle.path.name}, computed again.\n"))
    if result.stopped:
        raise KeyboardInterrupt
    return {run.run_id: run.cause for run in result.failures}


def _after(run: RunConfig, bundle: Bundle, storage: Storage, failure: str | None) -> Verdict:
    if failure is not None:
        return Verdict("not tried", failure)
    theirs, ours = folder_of(bundle.storage.root, run), folder_of(storage.root, run)
    now = parts_of(ours / MADE_WITH)[-1].made_with
    parts = [differing(part.made_with, now) for part in parts_of(theirs / MADE_WITH)]
    return compare_run(run, theirs, ours, list(dict.fromkeys(line for part in parts for line in part)))


def _show(
    bundle: Bundle,
    verdicts: Sequence[tuple[RunConfig, Verdict]],
    scores: Sequence[str],
    tables: Sequence[str],
    launcher: Launcher,
) -> bool:
    counts = Counter[str](verdict.outcome for _, verdict in verdicts)
    tried, runs = len(verdicts) - counts["not tried"], len(bundle.runs)
    if not tried:
        why = next((verdict.why for _, verdict in verdicts), "none was drawn")
        raise ConfigError(f"{bundle.path}: no run could be tried: {why}")
    table = titled_table("Computed again", launcher.console.width)
    for heading in ("run", "verdict", ""):
        table.add_column(heading)
    for run, verdict in verdicts:
        table.add_row(run.name, verdict.outcome, verdict.why)
    if not launcher.options.as_json:
        launcher.console.print(table)
    lines = [_proof(runs, tried, counts)]
    if left := counts["not tried"]:
        lines.append(f"{left} could not be tried, and not counted: nothing is known of runs like these.")
    for what, wrong in (("Scores", scores), ("Tables", tables)):
        if wrong:
            lines.append(f"{what} that do not follow from the records: {'; '.join(wrong[:5])}")
    if not scores and not tables:
        lines.append(f"The scores of all {runs} runs, and the tables, follow from their records.")
    launcher.say(*lines)
    rows = [{"run": run.name, "run_id": run.run_id, **asdict(verdict)} for run, verdict in verdicts]
    facts = {"runs": runs, "tried": tried, "verdicts": rows, "wrong_scores": scores}
    facts |= {"wrong_tables": tables, "proof": lines[0]}
    launcher.event("reproduced", bundle=bundle.digest, grid=bundle.grid.name, **facts)
    return not (counts["differs"] or scores or tables)


def _proof(runs: int, tried: int, counts: Counter[str]) -> str:
    if differing := counts["differs"]:
        return f"{tried} of {runs} recomputed, {differing} of them differ."
    same = "all the same" if counts["same bytes"] == tried else "all with the same decisions"
    share = 100 * most_that_differ(runs, tried) / runs
    most = f": with 95 % confidence at most {share:.0f} % of the runs differ"
    return f"{tried} of {runs} recomputed, {same}{most if tried < runs else ''}."
