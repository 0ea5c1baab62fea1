"""The command `fedgrid bundle check`: computes runs of a bundle again, and what that shows of all runs.

The bundle's checksum determines which runs these are, so that its author cannot choose them.
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
from fedgrid.engine.federation.data.names import extract_digest, parse_hub_name
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.data.datasets import find_dataset_digest, list_files
from fedgrid.engine.runtime.integrity.made_with import IMAGES, describe_differences, load_parts
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.format import load_manifest
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import make_absolute
from fedgrid.grids.bundles.layout import RECORDS, REPORT, STORAGE, group_names
from fedgrid.grids.bundles.read_bundle import Bundle, open_bundle
from fedgrid.grids.bundles.verdicts import Verdict, compare_run, describe_other_scores, list_other_tables
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.archive_models import is_archived
from fedgrid.grids.results.axes import find_naming_keys, format_run_name
from fedgrid.grids.results.grid_folder import GRIDS, RUNS, GridFolder
from fedgrid.grids.results.outcome import SCORES
from fedgrid.manifest import CONFIG
from fedgrid.redaction import escape_controls
from fedgrid.tracking.tables.table import Table

CHANCE = 20
"""A sample without any run that differs has a chance of less than one in this: 95 % confidence."""
TABLES = "tables"
VERSION = version("fedgrid")


@dataclass(frozen=True)
class CheckedBundle:
    """The result of checking a bundle."""

    bundle: Bundle
    verdicts: Sequence[tuple[RunConfig, Verdict]]
    """Verdicts on the runs that were drawn."""
    scores: Sequence[str]
    """Descriptions of final scores that do not follow from the records."""
    tables: Sequence[str] | None
    """Tables of the report that do not follow from the records; None if another version of fedgrid drew them,
    so that they were not compared."""
    older: Mapping[str, str]
    """Id of a run of another version of fedgrid -> that version."""

    @property
    def is_confirmed(self) -> bool:
        """Whether nothing that was compared differs, or is not confirmed."""
        outcomes = {verdict.outcome for _, verdict in self.verdicts}
        return not (outcomes & {"differs", "not confirmed"} or self.scores or self.tables)

    def build_table(self) -> TextTable:
        """Build the table of the verdicts, with the settings in which runs of one name differ."""
        keys = find_naming_keys(self.bundle.runs)
        rows = [(format_run_name(run, keys), verdict.outcome, verdict.why) for run, verdict in self.verdicts]
        return TextTable(("run", "verdict", ""), rows, "Computed again")

    def describe_proof(self) -> list[str]:
        """Describe what the verdicts on some of the runs show of all of them."""
        runs, counts = len(self.bundle.runs), Counter(verdict.outcome for _, verdict in self.verdicts)
        drawn, left = counts.total(), counts["not tried"]
        computed = drawn - left
        line = f"{computed} of {runs} recomputed"
        if counts["differs"] or counts["not confirmed"]:
            counts_by_word = {"differ": counts["differs"], "not confirmed": counts["not confirmed"]}
            line += "".join(f", {count} of them {word}" for word, count in counts_by_word.items() if count)
        elif computed:
            line += ", all the same" if counts["same bytes"] == computed else ", all with the same decisions"
            share = 100 * bound_differences(runs, computed) / runs
            population = "those that can be tried here" if left else "the runs"
            line += (
                f": with 95 % confidence at most {share:.0f} % of {population} differ" if drawn < runs else ""
            )
        remark = f"{left} could not be tried, and are not counted: nothing is shown of runs like these."
        return [f"{line}.", *([remark] if left else [])]

    def describe_claims(self) -> list[str]:
        """Describe what is compared less strictly, or not at all, because the bundle says so."""
        lines = []
        if within := [verdict for _, verdict in self.verdicts if verdict.claims]:
            claim_words = dict.fromkeys(claim for verdict in within for claim in verdict.claims)
            lines.append(
                f"{len(within)} runs count as the same, but not to the byte ({', '.join(claim_words)})"
            )
        if self.older:
            made_by = ", ".join(sorted({*self.older.values()}))
            which = f"of {len(self.older)} runs (made by fedgrid {made_by}, this is {VERSION})"
            lines.append(f"scores that only one of the two has are not compared, {which}")
        if self.bundle.version != VERSION:
            lines.append(
                f"tables are not compared (made by fedgrid {self.bundle.version}, this is {VERSION})"
            )
        return lines

    def list_unchecked(self) -> list[str]:
        """List the files that were compared with nothing; a pattern stands for those of one kind."""
        bundle = self.bundle
        grid = f"{STORAGE}/{GRIDS}/{bundle.grid.name}"
        checked = {f"{grid}/{RUNS}"}
        for run in bundle.runs:
            checked |= {f"{_build_run_path(run)}/{CONFIG}", f"{_build_run_path(run)}/{SCORES}"}
            checked |= {f"{grid}/{stored_plugins.FOLDER}/{digest}.py" for digest in run.plugin_digests}
        for run, verdict in self.verdicts:
            if verdict.outcome != "not tried":
                checked |= {f"{_build_run_path(run)}/{name}" for name in RECORDS}
            if verdict.outcome == "same bytes":
                manifest = load_manifest(build_folder_path(bundle.storage.root, run))
                checked |= {
                    f"{_build_run_path(run)}/{name}" for name in manifest.states.get(manifest.rounds_done, ())
                }
        if self.tables is not None:
            checked |= {name for name in bundle.files if re.fullmatch(rf"{REPORT}/{TABLES}/.*\.csv", name)}
        return group_names(name for name in bundle.files if name not in checked)

    def format_lines(self) -> list[str]:
        """Format the result: the proof, the records, what is not checked, what rests on the author's word."""
        claims = self.describe_claims()
        lines = self.describe_proof()
        for what, wrong in (("Scores", self.scores), ("Tables", self.tables)):
            if wrong:
                lines.append(f"{what} that do not follow from the records: {'; '.join(wrong[:5])}")
        if not (self.scores or self.tables):
            also = "" if self.tables is None else ", and the tables (csv),"
            but = ", but for what rests on the author's word" if claims else ""
            lines.append(
                f"The scores of all {len(self.bundle.runs)} runs{also} follow from their records{but}."
            )
        rest = ", ".join(self.list_unchecked())
        lines.append(f"Not checked: {rest}; `fedgrid import`, then `report`, draws the report again.")
        if claims:
            lines.append(f"On the author's word alone: {'; '.join(claims)}.")
        return lines


def check_bundle(
    path: Path,
    storage: Storage | None,
    options: LaunchOptions,
    console: Console,
    build_tables: Callable[[str, Storage], Iterable[Table]],
    *,
    sample: int | None = 5,
    data: Sequence[Path] = (),
    trust: bool = False,
    show: bool = False,
) -> bool:
    """Compute runs of a bundle again, and show how they compare.

    Args:
        path: The bundle.
        storage: Storage in which the runs are computed; None for a temporary folder.
        options: How the runs are launched.
        console: Where tables and progress are shown.
        build_tables: Builds the tables of the report of a grid, from its name and its storage.
        sample: Number of runs, 5 by default; None for all.
        data: Copies of data sets, and of files of splits, that are the author's own; none by default.
        trust: Whether plugins of the bundle may be executed; False by default.
        show: Whether their code is printed; False by default.

    Returns:
        Whether nothing differs.

    Raises:
        ConfigError: It is no bundle, a plugin is not trusted, or no run can be computed.
        DataError: Images are missing.
        RunError: The runs as a whole cannot go on.
        KeyboardInterrupt: `fedgrid stop` was called.
    """
    with open_bundle(path) as bundle, _storage_or_scratch(storage) as place:
        launcher = Launcher(place, options, console)
        drawn = draw_sample(bundle.runs, sample, bundle.digest)
        launcher.print_lines(
            f"{path}: grid {bundle.grid.name}, {len(bundle.runs)} runs, sha256 {bundle.digest}; "
            f"{len(drawn)} to compute again"
        )
        _register_data(data, bundle.runs)
        _check_plugins(bundle, drawn, trust=trust, show=show)
        # Obstacles are found before the launch, so that one run that cannot be computed does not stop the
        # others.
        before = {run.run_id: _judge_before(run, bundle, options.data_dir) for run in drawn}
        failures = _compute_runs([run for run in drawn if before[run.run_id] is None], bundle, launcher)
        verdicts = [
            (run, before[run.run_id] or _judge_after(run, bundle, place, failures.get(run.run_id)))
            for run in drawn
        ]
        older = {
            run.run_id: made_by for run in bundle.runs if (made_by := _find_version(run, bundle)) != VERSION
        }
        scores = [
            line
            for run in bundle.runs
            for line in describe_other_scores(bundle, run, names_too=run.run_id not in older)
        ]
        tables = None
        if bundle.version == VERSION:
            folder = bundle.storage.root.parent / REPORT / TABLES
            tables = list_other_tables(build_tables(bundle.grid.name, bundle.storage), folder)
        checked = CheckedBundle(bundle, verdicts, scores, tables, older)
        _show_result(checked, launcher)
        outcomes = {verdict.outcome: verdict.why for _, verdict in verdicts}
        if outcomes.keys() == {"not tried"}:
            raise ConfigError(f"{path}: no run could be tried: {outcomes['not tried']}")
        return checked.is_confirmed


def _show_result(result: CheckedBundle, launcher: Launcher) -> None:
    """Show the result, as tables and lines or as JSON."""
    if not launcher.options.as_json:
        launcher.console.print(result.build_table())
    launcher.print_lines(*result.format_lines())
    rows = [{"run": run.name, "run_id": run.run_id, **asdict(verdict)} for run, verdict in result.verdicts]
    launcher.print_event(
        "reproduced",
        bundle=result.bundle.digest,
        grid=result.bundle.grid.name,
        runs=len(result.bundle.runs),
        tried=sum(verdict.outcome != "not tried" for _, verdict in result.verdicts),
        verdicts=rows,
        wrong_scores=result.scores,
        wrong_tables=result.tables,
        unchecked=result.list_unchecked(),
        claims=result.describe_claims(),
        proof=result.describe_proof()[0],
    )


def draw_sample(runs: Sequence[RunConfig], sample: int | None, digest: str) -> list[RunConfig]:
    """Draw runs by a hash of a digest and their ids.

    Args:
        runs: The runs to draw from.
        sample: Number of runs; None for all.
        digest: Digest of the bundle.
    """
    # A hash of both: an author who wants other runs in the sample must change the bundle, and so draws again.
    return sorted(runs, key=lambda run: sha256(f"{digest} {run.run_id}".encode()).digest())[:sample]


def bound_differences(runs: int, same: int) -> int:
    """Compute how many of `runs` can differ at most, with 95 % confidence, if `same` of them do not.

    The exact bound for a sample without replacement: with more that differ, a sample without any of them has
    a probability of less than 5 %.
    """
    return max(
        differing
        for differing in range(runs - same + 1)
        # The probability that a sample of `same` has none of those that differ.
        # In whole numbers: of thousands of runs the binomial coefficients are larger than any float.
        if CHANCE * comb(runs - differing, same) > comb(runs, same)
    )


@contextmanager
def _storage_or_scratch(storage: Storage | None) -> Iterator[Storage]:
    """Yield the storage, or one in a temporary folder."""
    if storage is not None:
        storage.pull_marks()
        yield storage
        return
    with create_scratch_folder() as folder:
        yield Storage.from_text(folder / "runs")


def _register_data(copies: Iterable[Path], runs: Iterable[RunConfig]) -> None:
    """Register the user's copies of data that are the author's own, which runs find by their content.

    Raises:
        ConfigError: A copy does not exist, or its content is that of none of the runs' data.
    """
    names = sorted({name for run in runs for name in run.own_images})
    for copy in copies:
        place = make_absolute(copy, "--data")
        if not place.exists():
            raise ConfigError(f"--data {copy}: there is nothing")
        kinds = {name: name.partition(":")[0] for name in names}
        # How a file is digested depends on the kind of data that its name states.
        digests = {
            kind: own_images.digest_files(place, list_files(kind, place)) for kind in {*kinds.values()}
        }
        matches = {name: str(place) for name in names if extract_digest(name) == digests[kinds[name]]}
        if not matches:
            names_text = ", ".join(names) or "none, so leave it out"
            raise ConfigError(
                f"--data {copy}: its content is that of no data of these runs; they are {names_text}"
            )
        own_images.register_places(matches)


def _check_plugins(bundle: Bundle, runs: Iterable[RunConfig], *, trust: bool, show: bool) -> None:
    """Print which plugins of a bundle these runs need, unless they are in use, and with `show` their code.

    Raises:
        ConfigError: There are some, and they are not trusted. Nothing of them was executed.
    """
    digests = sorted({digest for run in runs for digest in run.plugin_digests})
    in_use = {source.digest for source in active.list_sources(digests)}
    index, untrusted = stored_plugins.read_index(bundle.grid.path), []
    for digest in digests:
        path = bundle.grid.path / stored_plugins.FOLDER / f"{digest}.py"
        if digest in in_use or not path.exists():
            continue
        code = path.read_bytes().decode("utf-8", "replace")
        name = index[digest].plugin if digest in index else "of no name"
        member = f"{STORAGE}/{path.relative_to(bundle.storage.root).as_posix()}"
        warn(
            f"plugin {escape_controls(name)}, {len(code.splitlines())} lines, digest {digest[:12]}: {member}"
        )
        untrusted.append(name)
        if show:
            print(escape_controls(code))
    if untrusted and not trust:
        raise ConfigError(
            f"these runs execute {', '.join(untrusted)}, which nobody has checked and was not executed: read "
            "the code (--show prints it), then add --trust, or name your own copy with --plugin"
        )


def _find_obstacle(run: RunConfig, bundle: Bundle) -> str:
    """Describe why a run cannot be computed here, empty if it can; its plugins are in use from now on."""
    if is_archived(run):
        return "it was imported from the authors' archive, whose models are not published"
    there = own_images.list_places(run.own_images)
    if lacks := [name for name in run.own_images if name not in there and not parse_hub_name(name)]:
        return f"it needs {lacks[0]}: name your copy with --data PATH"
    try:
        stored_plugins.restore_plugins(bundle.grid.path, bundle.storage, [run], trust=True)
    except ConfigError as error:
        return str(error)
    return ""


def _judge_before(run: RunConfig, bundle: Bundle, data_dir: Path) -> Verdict | None:
    """Judge a run that is not to be computed; None if it is."""
    if obstacle := _find_obstacle(run, bundle):
        return Verdict("not tried", obstacle)
    parts = load_parts(build_folder_path(bundle.storage.root, run))
    then = parts[-1].made_with.get(IMAGES, "none") if parts else "none"
    try:
        now = find_dataset_digest(run.dataset, data_dir)
    except (ConfigError, DataError) as error:
        return Verdict("not tried", str(error))
    if then != now:
        return Verdict("differs", f"in its data: {run.dataset} has digest {now[:12]} here, {then[:12]} there")
    return None


def _compute_runs(todo: Sequence[RunConfig], bundle: Bundle, launcher: Launcher) -> Mapping[str, str]:
    """Compute runs; return run id -> why it failed."""
    name = f"reproduced-{bundle.digest[:12]}"
    folder = GridFolder(launcher.storage, name)
    before = {run.run_id for run in folder.read_definition().all_runs} if folder.is_there else set()
    for run in todo:
        # A finished run would be read instead of computed, and then compared with itself.
        if run.run_id not in before and build_folder_path(launcher.storage.root, run).exists():
            raise ConfigError(
                f"{launcher.storage} has {run.name} already, which would not be computed: name a --storage "
                "without it, or none"
            )
    return (
        _launch_runs(todo, name, f"# Runs of {bundle.path.name}, computed again.\n", launcher) if todo else {}
    )


def _launch_runs(todo: Sequence[RunConfig], name: str, text: str, launcher: Launcher) -> dict[str, str]:
    """Launch runs as a grid; those that are refused are isolated by halving, and the others computed."""
    try:
        result = launcher.run_unfinished(Grid(name, tuple(todo), text))
    except (ConfigError, DataError) as error:
        if len(todo) == 1:
            return {todo[0].run_id: str(error)}
        # A launch refuses all of its runs for one of them, and does not say for which.
        half = len(todo) // 2
        return _launch_runs(todo[:half], name, text, launcher) | _launch_runs(
            todo[half:], name, text, launcher
        )
    if result.stopped:
        raise KeyboardInterrupt
    return {run.run_id: run.cause for run in result.failures}


def _judge_after(run: RunConfig, bundle: Bundle, storage: Storage, failure: str | None) -> Verdict:
    """Judge a run by the records of both computations."""
    if failure is not None:
        return Verdict("not tried", failure)
    theirs, ours = build_folder_path(bundle.storage.root, run), build_folder_path(storage.root, run)
    if not (here := load_parts(ours)):
        return Verdict("not tried", "its files are not here: name a --storage that all machines reach")
    parts = [describe_differences(part.made_with, here[-1].made_with) for part in load_parts(theirs)]
    return compare_run(run, theirs, ours, list(dict.fromkeys(line for part in parts for line in part)))


def _build_run_path(run: RunConfig) -> str:
    """Build the path of a run's folder in a bundle."""
    return build_folder_path(Path(STORAGE), run).as_posix()


def _find_version(run: RunConfig, bundle: Bundle) -> str:
    """Find the version of fedgrid that made a run according to the bundle; this one if it is not recorded."""
    parts = load_parts(build_folder_path(bundle.storage.root, run))
    return parts[-1].made_with.get("fedgrid", VERSION) if parts else VERSION
