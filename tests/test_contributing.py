"""Adding what CONTRIBUTING's table names touches at most four files: each is added to a copy of the tree.

Beside the files that a test writes, what comes with the addition is its test and a line in CHANGELOG.md, and
docstrings.
"""

import json
from pathlib import Path

import pytest

from tests.helpers.changed_code import CodeCopy

MOST = 4
"""Files, with those of a test and of CHANGELOG."""
TEST_AND_CHANGELOG = 2


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the tree with everything added that the tests below ask for, and what it says of itself."""
    made = CodeCopy(tmp_path_factory.mktemp("tree"))
    made.touched = {}
    for name, add in ADDITIONS.items():
        made.written.clear()
        add(made)
        made.touched[name] = {*made.written}
    made.said = json.loads(made.run_python(WHAT_IS_THERE))
    return made


def algorithm(tree):
    tree.write(
        "fedgrid/algorithms/averaging/fedhalf.py",
        '''
"""FedHalf: FedAvg whose server takes half of the step.

Source: ours.
"""

from dataclasses import replace

import numpy as np

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = "@misc{half2026, title = {Half of a Step}}"


class FedHalfSettings(FedOptSettings):
    """The defaults of FedOpt."""

    server_learning_rate: float = 0.5


class FedHalf(FedOpt):
    """FedOpt at half speed.

    Degenerate cases:

    - A step of zero is half of itself.
    """

    settings: FedHalfSettings

    def start_order_key(self) -> tuple[float, ...]:
        """From round 1 on."""
        return (1.0,)

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Average, and record half of the mean norm."""
        state, diagnostics = super().step(state, round_index, updates, rng)
        return state, replace(diagnostics, metrics={"half_norm": updates.mean_norm / 2})
''',
    )
    tree.insert(
        "fedgrid/algorithms/averaging/entries.py",
        "ENTRIES = (\n",
        """    AlgorithmEntry(
        "fedhalf",
        "FedHalf",
        "one model for all, at half speed",
        "ours",
        FedHalf,
        FedHalfSettings(),
        search={"server_learning_rate": {"low": 0.1, "high": 1.0}},
        bibtex=BIBTEX,
        numbers=(OwnNumber("half_norm", "Half of the norm of the mean update."),),
    ),
""",
    )
    tree.prepend(
        "fedgrid/algorithms/averaging/entries.py",
        "from fedgrid.algorithms.averaging.fedhalf import BIBTEX, FedHalf, FedHalfSettings\n"
        "from fedgrid.algorithms.contract.entry import OwnNumber\n",
    )
    tree.write(
        "tests/algorithms/averaging/test_fedhalf.py",
        '''
"""FedHalf: half of the step."""

import pyarrow.parquet as pq

from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import clients, start, step
from tests.helpers.small_runs import ROUNDS, config, play


def test_model_takes_half_of_the_mean():
    """Half of (2, 4)."""
    algorithm = create_algorithm("fedhalf")
    state, diagnostics = step(algorithm, start(algorithm, 2), 0, clients((1, 4), (3, 4)))
    assert state.models[0].tolist() == [1, 2]


def test_run_records_its_number(tmp_path):
    rounds = pq.read_table(play(config("fedhalf"), tmp_path) / "rounds.parquet")
    assert all(value > 0 for value in rounds["half_norm"].to_pylist())
    assert len(rounds) == ROUNDS
''',
    )
    tree.prepend("CHANGELOG.md", "- `fedhalf`.\n")


def clusterer(tree):
    where = "fedgrid/algorithms/clustering/clusterers.py"
    tree.insert(
        where,
        "class AffinityAsPublished",
        """class Halves(Clusterer):
    name: Literal["halves"] = "halves"

    def fit(self, distances_KK: Matrix, rng: np.random.Generator) -> Labels:
        return (np.arange(len(distances_KK)) < len(distances_KK) / 2).astype(np.int64)


""",
        before=True,
    )
    tree.insert(where, '    "hdbscan": HDBSCAN,\n', '    "halves": Halves,\n')
    entries = "fedgrid/algorithms/clustered/while_training/entries.py"
    tree.prepend(entries, "from fedgrid.algorithms.clustering.clusterers import Halves\n")
    settings = "ocfl.OcflSettings(clusterer=Halves())"
    entry = f'    _build_ocfl_entry("ocfl-halves", "OCFL-2", "halves", {settings}, {{}}),\n'
    tree.insert(entries, "ENTRIES = (\n", entry)


def local_method(tree):
    tree.write(
        "fedgrid/algorithms/averaging/still.py",
        """
from typing import Literal

from fedgrid.algorithms.contract.local_method import LocalMethod
from fedgrid.algorithms.contract.local_rule import LocalModel, LocalRule, LocalSteps


class StillRule(LocalRule):
    def start(self, local: LocalModel) -> LocalSteps:
        steps = LocalSteps()
        steps.trains = local.weights != local.weights
        return steps


class Still(LocalMethod):
    name: Literal["still"] = "still"

    def rule(self) -> LocalRule:
        return StillRule()
""",
    )
    tree.insert(
        "fedgrid/algorithms/averaging/entries.py",
        "LOCAL_METHODS |= {",
        '"still": Still, ',
    )
    tree.prepend(
        "fedgrid/algorithms/averaging/entries.py",
        "from fedgrid.algorithms.averaging.still import Still\n",
    )


def aggregator(tree):
    tree.write(
        "fedgrid/algorithms/robust/first.py",
        """
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.updates.source import Vector


class First(Aggregator):
    name: Literal["first"] = "first"

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        return np.array(rows[0])
""",
    )
    entries = "fedgrid/algorithms/robust/entries.py"
    tree.insert(entries, "= {\n", '    "first": First,\n')
    tree.prepend(entries, "from fedgrid.algorithms.robust.first import First\n")


def model(tree):
    tree.insert(
        "fedgrid/engine/federation/models/networks.py",
        "def mobilenet(",
        """def flat(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, num_classes))


""",
        before=True,
    )
    tree.insert(
        "fedgrid/engine/federation/models/registry.py",
        "_ENTRIES = (\n",
        '    ModelEntry("flat", "one linear layer", "ours", _import_network("flat")),\n',
    )


def data_set(tree):
    tree.insert(
        "fedgrid/engine/federation/data/readers.py",
        "def read_digits(",
        """def few_digits(path: Path) -> Pair:
    pool, test = read_digits(path)
    return pool.take(np.arange(0, len(pool), 3)), test


""",
        before=True,
    )
    tree.insert(
        "fedgrid/engine/federation/data/registry.py",
        '    "fmnist": Dataset(\n',
        """    "few-digits": Dataset(
        "few-digits",
        "Few digits",
        "scikit-learn",
        num_classes=10,
        inputs=image_inputs(1, 8, 8),
        pool_size=481,
        download_mb=0,
        model="digitnet",
        training=DIGITS_TRAINING,
        read=readers.few_digits,
        bibtex=papers.DIGITS,
    ),
""",
        before=True,
    )


def split(tree):
    tree.insert(
        "fedgrid/engine/federation/partition/shifted.py",
        "DIMMED = ",
        "DARKER = TransformSplit(dim_images)\n",
        before=True,
    )
    kinds = "fedgrid/engine/federation/dealing/kinds.py"
    tree.insert(kinds, '    "dimmed": shifted.DIMMED,\n', '    "darker": shifted.DARKER,\n')


def number(tree):
    tree.insert(
        "fedgrid/engine/federation/round/record.py",
        '        "silhouette": diagnostics.silhouette,\n',
        '        "senders": len(updates.clients),\n',
    )
    tree.insert(
        "fedgrid/record_columns.py",
        '    RecordColumn("counts",',
        '    RecordColumn("senders", pa.int32(), "Number of usable updates.", section="cost"),\n',
        before=True,
    )


def score(tree):
    tree.insert(
        "fedgrid/tracking/scoring/client_scores.py",
        "ONLY_CURVES = (\n",
        """    Score("best_client_accuracy", "One.", lambda c: c["personalised_accuracy"].max(axis=-1)),
""",
    )


def figure(tree):
    tree.insert(
        "fedgrid/tracking/tables/scenarios.py",
        "def build_own_numbers_table(",
        """def sizes(study: Study) -> Table:
    row = Row(study.name, (Cell(str(len(study.runs))),))
    return Table("sizes", "Sizes", "All runs.", (Column("runs"),), (row,), corner="grid")


""",
        before=True,
    )
    tree.insert(
        "fedgrid/tracking/report/contents.py",
        "        *_build_privacy_section(study),\n",
        '        PageSection("sizes", "Sizes", items=(scenarios.sizes(study),)),\n',
    )


def paper(tree):
    folder = "fedgrid/tracking/papers/sixth"
    tree.write(f"{folder}/__init__.py", '"""A sixth paper."""\n')
    tree.write(
        f"{folder}/paper.py",
        """
from fedgrid.tracking.papers.shared.paper import Paper

PAPER = Paper("sixth", "Sixth et al.", lambda study: ())
""",
    )
    papers = "fedgrid/tracking/papers/sections.py"
    tree.insert(papers, "PAPERS = (", "SIXTH, ")
    tree.prepend(papers, "from fedgrid.tracking.papers.sixth.paper import PAPER as SIXTH\n")


def analysis(tree):
    tree.write("fedgrid/grids/counted/__init__.py", '"""Counts models."""\n')
    tree.write(
        "fedgrid/grids/counted/analysis.py",
        """
from typing import Any

from fedgrid.grids.analyses.analysis import Analysis, Artifacts, Job


class Counted(Analysis):
    name = "counted"

    def compute(self, job: Job, context: Any) -> Artifacts:
        return Artifacts({"models": len(context.state(job).state.models)})


COUNTED = Counted()
""",
    )
    actions = "fedgrid/grids/cli/actions/analyses.py"
    tree.insert(actions, "for each in (EXPLAIN, ATTACK, ", "COUNTED, ")
    tree.prepend(actions, "from fedgrid.grids.counted.analysis import COUNTED\n")


def tracker(tree):
    tree.write(
        "fedgrid/grids/trackers/lines.py",
        """
from collections.abc import Mapping
from typing import Any

from fedgrid.grids.trackers.tracker import TrackedRun, Tracker


class Lines(Tracker):
    name = "lines"

    def round(self, run: TrackedRun, number: int, scores: Mapping[str, Any], ended_ms: int) -> None:
        with (self.grid.storage.root / "lines.txt").open("a") as file:
            file.write(f"{number}\\n")
""",
    )
    registry = "fedgrid/grids/following/registry.py"
    tree.insert(registry, "for tracker in (MlflowTracker, ", "Lines, ")
    tree.prepend(registry, "from fedgrid.grids.trackers.lines import Lines\n")


def command(tree):
    tree.write(
        "fedgrid/grids/display/splits.py",
        """
from rich.console import Console

from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.grids.display.plain_console import print_plain


def list_splits(console: Console) -> None:
    for name in KINDS:
        print_plain(console, name)
""",
    )
    tree.insert(
        "fedgrid/grids/cli/commands/listings.py",
        '@app.command(epilog="Example: `fedgrid init my-study`")\n',
        """@app.command(epilog="Example: `fedgrid splits`")
def splits() -> None:
    from fedgrid.grids.display.splits import list_splits

    list_splits(create_console())


""",
        before=True,
    )


def preset(tree):
    tree.write("fedgrid/grids/presets/tiny.yaml", "# Two runs; ours.\nbase: quickstart\nseeds: 0\n")


ADDITIONS = {
    "an algorithm": algorithm,
    "a clusterer": clusterer,
    "a way to train locally": local_method,
    "an aggregator": aggregator,
    "a model": model,
    "a data set": data_set,
    "a kind of split": split,
    "a number of each round": number,
    "a score": score,
    "a figure, a table": figure,
    "a paper's numbers and claims": paper,
    "an analysis of finished runs": analysis,
    "a tracker": tracker,
    "a preset": preset,
    "a command": command,
}
"""Row of CONTRIBUTING's table -> what adds one."""

TESTS = [
    *("-q", "-x", "-p", "no:cacheprovider"),
    "tests/algorithms/averaging/test_fedhalf.py",
    "tests/test_layout.py",
    "tests/algorithms/test_contract.py",
    "tests/algorithms/test_registry.py",
    *("-k", "(fedhalf or test_layout) and not full_name"),
]
"""Arguments of pytest: the algorithm's own tests, and those of all algorithms and modules."""
WHAT_IS_THERE = (
    f"TESTS = {TESTS!r}"
    + """
import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.actions.analyses import find_analysis
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.search.space import find_built_in_space
from fedgrid.grids.following.session import TrackerSession
from fedgrid.grids.following.registry import find_tracker
from fedgrid.grids.trackers.tracker import TrackedGrid
from fedgrid.tracking.papers.sections import PAPERS
from fedgrid.tracking.report.contents import build_report_page
from fedgrid.tracking.records import read_records
from fedgrid.tracking.scoring.scores import compute_curves
from tests.helpers.command_line import fedgrid
from tests.helpers.small_runs import play
from tests.helpers.studies import WHOLE, make_result, make_run, make_study

settings = {"aggregate": "first", "local": {"name": "still"}}
with TemporaryDirectory() as folder:
    given = {"algorithm": {"name": "ocfl-halves", **settings}, "dataset": "few-digits", "model": "flat"}
    given |= {"clients": 6, "split": "darker", "training": {"rounds": 1, "local_epochs": 1}}
    run = complete_config(given, Path(folder))
    found = compute_curves(read_records(play(run, Path(folder), cache=None)))
    TrackerSession(find_tracker("lines"), TrackedGrid("mine", Storage.from_text(folder))).update_run(run)
    lines = Path(folder, "lines.txt").read_text()
page = build_report_page(make_study([make_result(make_run(), WHOLE, curves={"ari": (0, 1)})]))
commands = fedgrid("splits").out.split()
with redirect_stdout(StringIO()) as shown:
    code = pytest.main(TESTS)
print(json.dumps({
    "an algorithm": "server_learning_rate" in str(find_built_in_space("fedhalf", 15)),
    "a clusterer": run.algorithm.clusterer["name"] == "halves",
    "a way to train locally": run.algorithm.local == {"name": "still"},
    "an aggregator": run.algorithm.aggregate == {"name": "first"},
    "a model": run.model == "flat",
    "a data set": run.dataset == "few-digits",
    "a kind of split": run.split.kind == "darker",
    "a number of each round": found["senders"].tolist() == [6.0],
    "a score": bool(found["best_client_accuracy"][0] >= 0),
    "a figure, a table": any(section.name == "sizes" for section in page.sections),
    "a paper's numbers and claims": any(paper.name == "sixth" for paper in PAPERS),
    "an analysis of finished runs": find_analysis("counted").name == "counted",
    "a tracker": lines == "1\\n",
    "a command": "darker" in commands,
    "a preset": len(load_grid("tiny", {}, [], Path("nowhere")).runs) > 0,
    "failed tests": shown.getvalue() if code else "",
}))
"""
)


@pytest.mark.parametrize("what", [name for name in ADDITIONS if name != "an algorithm"])
def test_addition_works_and_touches_few_files(what, copy):
    assert copy.said[what]
    modules = [file for file in copy.touched[what] if not file.endswith("__init__.py")]
    assert len(modules) + TEST_AND_CHANGELOG <= MOST


def test_algorithm_touches_four_files_and_passes_the_tests_of_all(copy):
    assert len(copy.touched["an algorithm"]) == MOST
    assert copy.said["failed tests"] == ""
    assert copy.said["an algorithm"], "the space of its searches"


def test_table_of_contributing_has_a_row_for_each_and_names_files_that_there_are():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| a")]
    named = {row[0].strip() for row in rows}
    assert named >= set(ADDITIONS)
    for _, *cells in rows:
        for path in (part for cell in cells for part in cell.split("`")[1::2] if "/" in part):
            below = Path(path) if path.startswith("docs/") else Path("fedgrid", path)
            assert (Path(__file__).parents[1] / below).exists(), path
