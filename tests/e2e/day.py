"""The tutorial, typed: `python -m tests.e2e.day` writes docs/day.md.

Each command runs in a process of its own, in a new folder, on Ray. Written again, the page differs in times
only, on another processor in last digits. test_day.py types the same in one process, without Ray.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from time import perf_counter

from tests.helpers.processes import wait_until_served

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "day.md"
STUDY = "my-study"
WIDTH = 110
PROGRESS = re.compile(r" round \d+/\d+ |: starts$|: finished |^(Starting|Waiting for) |^trial \d+|^$")
"""Lines of progress, and empty ones, which the page leaves out."""


@dataclass(frozen=True)
class Step:
    """What a reader of the tutorial does next."""

    title: str
    why: str
    command: str
    then: str = ""
    """What to see in the output."""
    skips: int = 0
    """Lines of its output before those that the page has."""
    most: int = 40
    """Lines that the page has."""
    saves: str = ""
    """A file of docs/examples that the reader saves before."""
    is_typed_by_test: bool = True
    """Whether test_day.py types it too; `fedgrid ui`, which serves, has tests of its own."""
    is_compared: bool = True
    """Whether the test compares the output, which depends on the machine if not."""


RUN = f"fedgrid run {STUDY}.yaml"
STEPS = (
    Step(
        "A study",
        "This writes a commented grid, a plugin with an algorithm and a model, a search and a notebook:",
        f"fedgrid init {STUDY}",
        "Go into that folder.",
    ),
    Step(
        "The plan",
        "The grid has three algorithms and two seeds. A dry run starts nothing:",
        f"{RUN} --dry-run",
        most=5,
        is_compared=False,
    ),
    Step(
        "The first runs",
        "One seed first:",
        f"{RUN} --where seed=0",
        "The clients hold different digits, in three hidden groups. ARI 1 says that an algorithm found them. "
        "Each cluster's model is then better on its own clients' images (`pers.`), and worse on all digits "
        "(`gen.`), than one model for all (fedavg). one-cut is the algorithm of the study's plugin. One of "
        "its runs, round by round:",
        most=7,
    ),
    Step(
        "",
        "",
        "fedgrid show digits-15-nonoverlapping-balanced-one_cut-s0",
        "It made three clusters in round 3. The rest of the output shows which client is in which.",
        skips=15,
        most=5,
    ),
    Step(
        "An algorithm of your own",
        "Save `my_algorithm.py` from [how to add an algorithm](own-algorithm.md) in the folder. Its runs "
        "join the others, and take their rounds from the cache until it acts:",
        f"{RUN} --where seed=0 --plugin my_algorithm.py algorithm+=long-short",
        "It separates clients by the length of their updates, which has little to do with the groups. The "
        "grid's runs, best first:",
        skips=7,
        most=1,
        saves="my_algorithm.py",
    ),
    Step(
        "",
        "",
        f"fedgrid show {STUDY} --sort personalised_f1 --columns algorithm,ari,personalised_f1,run_id",
        skips=8,
        most=5,
    ),
    Step(
        "Curves, tables, figures",
        "MLflow shows the curves of all runs, also while they train ([the view](mlflow.md)):",
        f"fedgrid ui {STUDY} --port 5055",
        "Ctrl-C ends it. The report has tables and figures for a paper ([reports](reports.md)):",
        is_typed_by_test=False,
    ),
    Step("", "", f"fedgrid report {STUDY}", most=4),
    Step(
        "Better settings",
        "In which round should one-cut cluster? The search judges four rounds by validation images:",
        f"fedgrid search {STUDY}-search.yaml",
        "The same grid with the best setting, under another name; one-cut now clusters in round 4:",
        most=9,
    ),
    Step("", "", f"{RUN} --where seed=0 --tuned {STUDY}-search --name tuned", skips=6, most=1),
    Step(
        "The comparison",
        "Did that matter?",
        f"fedgrid table {STUDY} --against tuned --score ari",
        "Not here: the groups were found before. One scenario and one seed could show nothing anyway; with "
        "`--seeds 0..4` tables have deviations, and with six scenarios tests ([how algorithms are "
        "compared](statistics.md)).",
        most=6,
    ),
)


def main() -> None:
    """Type all steps and write the page."""
    begun = perf_counter()
    with TemporaryDirectory() as folder:
        parts = [part for step in STEPS for part in _typed(step, Path(folder))]
    minutes = (perf_counter() - begun) / 60
    head = HEAD.format(minutes=minutes, cores=len(os.sched_getaffinity(0)))
    PAGE.write_text("\n".join([head, *parts, END, ""]), encoding="utf-8")


HEAD = """\
# Tutorial: a study from start to end

From nothing to a comparison of algorithms, one of them your own. You need fedgrid ([install](../README.md)).
All of it took {minutes:.0f} minutes on {cores} cores. `...` stands for lines that are left out.
"""
END = """\
Next: [write a grid](presets.md), use [your own images](data.md), or compare your algorithm with 20 others in
[the arena](arena-command.md)."""


def _typed(step: Step, home: Path) -> Iterator[str]:
    """Type a step and yield its lines of the page.

    Raises:
        CalledProcessError: a command failed.
    """
    study = home / STUDY
    if step.saves:
        shutil.copy(DOCS / "examples" / step.saves, study)
    run = served if step.command.startswith("fedgrid ui") else _run
    out = run(step.command, study if study.exists() else home)
    if step.title:
        yield f"## {step.title}\n"
    if step.why:
        yield f"{fill(step.why, WIDTH)}\n"
    yield f"```console\n$ {step.command}"
    shown = [line for line in plain(out, home) if not PROGRESS.search(line)]
    yield from ["..."] * bool(step.skips)
    yield from shown[step.skips :][: step.most]
    yield from ["..."] * (len(shown) > step.skips + step.most)
    yield "```\n"
    if step.then:
        yield f"{fill(step.then, WIDTH)}\n"


def plain(out: str, home: Path) -> list[str]:
    """Return the lines of an output, with `~` for the stranger's home."""
    return [line.rstrip() for line in out.replace(str(home), "~").splitlines()]


def _run(command: str, folder: Path) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("fedgrid")), *shlex.split(command)[1:]],
        cwd=folder,
        env={**os.environ, "COLUMNS": "132"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def served(command: str, folder: Path) -> str:
    """Start a server, ask for the page that it names, end it, and return what it printed until then."""
    program = str(Path(sys.executable).with_name("fedgrid"))
    with subprocess.Popen(
        [program, *shlex.split(command)[1:]], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = ""
        while (server := re.search(r"http://[^/\s]+", printed)) is None:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        wait_until_served(server[0])
        process.terminate()  # As Ctrl-C, which a shell's background job ignores.
    return printed


if __name__ == "__main__":
    main()
