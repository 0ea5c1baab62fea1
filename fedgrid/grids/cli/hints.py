"""Suggest what to type in place of an option, a command or a value that fedgrid does not accept."""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from typer.exceptions import TyperException

from fedgrid.engine.federation.errors import ABBREVIATIONS
from fedgrid.grids.cli.commands.app import OVERRIDES
from fedgrid.grids.presets.axis_keys import AXES, SETTING_PREFIX, list_axis_keys

OLD_OPTIONS = {
    "--set": "it is an argument now: fedgrid run GRID training.rounds=5",
    "--extend": "it is an argument now: fedgrid run GRID seeds+=5..9",
    "--filter": "it is --where now: --where dataset=mnist",
    "--per-run": "fedgrid show GRID has a row a run",
    "--traffic": "Prigent's tables count the download to test; the others count what rounds send",
    "--drop": "fedgrid run evicts what no run needs; to limit the cache: fedgrid run GRID --cache-limit 9GB",
}
"""Option of earlier versions -> what to type."""
OPTION_HINTS = (
    (
        "gpu gpus device cuda",
        "a GPU is used where there is one; --gpus-per-actor SHARE, as in 0.25, divides it",
    ),
    (
        "cpus jobs n_jobs num_workers parallel threads workers",
        "--cpus-per-actor CPUS and --clients-per-actor COUNT divide a run; as many runs go on as fit",
    ),
    ("continue restart resume", "the same command continues where it stopped; --fresh starts over"),
    ("force overwrite", "--fresh deletes what these runs have stored, and starts over"),
    ("dir log_dir o out out_dir output output_dir save_dir", "--to FOLDER writes it elsewhere"),
    ("dir log_dir o out out_dir output output_dir save_dir", "--storage FOLDER keeps the runs elsewhere"),
    ("c conf config f file grid preset yaml", "name it without an option, as in fedgrid run FILE.yaml"),
    ("debug log v verbose", "log.txt in a run's folder has everything; --json prints every round"),
    ("dry n", "--dry-run shows what would run"),
    ("format", "every format is written; --to FOLDER writes them elsewhere"),
    ("V v", "--version shows it"),
)
"""Words that other programs use as options -> what to type; of a word's rows the first whose options the
command has."""
COMMAND_HINTS = (
    (
        "algorithms columns keys models presets schema",
        "it is `fedgrid list algorithms`, `list columns`, `list keys`, `list models`, `list presets`, "
        "`list schema`",
    ),
    ("runs", "it is `fedgrid show GRID`"),
    ("tag", "it is `fedgrid show RUN --tag KEY=VALUE --note TEXT`"),
    ("compare", "it is `fedgrid table GRID --against OTHER`, or `fedgrid report GRID --against OTHER`"),
    ("retry", "it is `fedgrid run GRID --failed`"),
    ("prune", "it is `fedgrid delete GRID --superseded`"),
    ("reproduce", "it is `fedgrid bundle check FILE.zip`"),
    ("convert", "it is `fedgrid data femnist --from FOLDER`"),
    ("attack", "it is `fedgrid analyse GRID attack kind=membership`"),
    ("explain", "it is `fedgrid analyse GRID explain`"),
    ("grids list ls", "`fedgrid status` lists grids, `fedgrid show GRID` the runs of one"),
    (
        "continue resume",
        "the same `fedgrid run` continues; `fedgrid run GRID --failed` runs failed runs again",
    ),
    ("execute fit launch start train", "it is `fedgrid run FILE.yaml`"),
    ("cancel kill", "it is `fedgrid stop GRID`"),
    ("clean remove rm", "it is `fedgrid delete GRID`"),
    ("figures plot tables", "it is `fedgrid report GRID`"),
    ("results scores", "it is `fedgrid show GRID`"),
    ("optimise optimize tune", "it is `fedgrid search ALGORITHM`"),
    ("datasets", "it is `fedgrid data`"),
    ("help", "it is `fedgrid --help`, or `fedgrid COMMAND --help`"),
    ("version", "it is `fedgrid --version`"),
)
VALUE_HINTS = {
    "clients": "several: clients=15,30",
    "seed": "several: --seeds 0..3",
    "gpus_per_actor": "a number, as in 0.25; in place of auto leave it out, and the share follows from "
    "the GPU's memory; training.stacked=CLIENTS stacks clients",
}
"""Option -> what to type in place of a value that is refused."""


def suggest_replacement(error: TyperException) -> str:
    """Suggest what to type in place of what was refused; empty without a suggestion."""
    # Errors of Typer have these attributes by their kind, without a common class that declares them.
    if option := getattr(error, "option_name", ""):
        command = getattr(getattr(error, "ctx", None), "command", None)
        has = {name for parameter in getattr(command, "params", ()) for name in parameter.opts}
        if replacement := OLD_OPTIONS.get(option):
            return replacement
        return _suggest_for_option(option.lstrip("-").replace("-", "_"), has)
    message = error.format_message()
    if "unexpected extra argument" in message:
        return _suggest_for_words(error, sys.argv[1:])
    if getattr(getattr(error, "ctx", None), "info_name", "") == "bundle":
        return "it is `fedgrid bundle make GRID -o FILE.zip`, or `fedgrid bundle check FILE.zip`"
    if command := re.match(r"No such command '([\w-]+)'", message):
        return next(_find_texts(command[1], COMMAND_HINTS), "")
    return VALUE_HINTS.get(getattr(getattr(error, "param", None), "name", ""), "")


def _suggest_for_words(error: TyperException, arguments: Sequence[str]) -> str:
    """Suggest what to type for more words than a command takes: the values of an option, or one at a time."""
    # The shell has split `0, 1, 2` into three words, of which Typer reports only the second.
    if any(word.endswith(",") for word in arguments):
        return "several values have commas between them, and no spaces, as in --seeds 0,1,2"
    context: Any = getattr(error, "ctx", None)
    extra = re.search(r"argument\S* \(([^ )]+)", error.format_message())
    until = arguments.index(extra[1]) if extra and extra[1] in arguments else 0
    # The option that the extra words follow: `--seeds 0 1 2` is refused at `1`, far from what is wrong.
    start = next((place for place in range(until - 1, -1, -1) if arguments[place].startswith("--")), until)
    options = {name: one for one in context.command.params for name in one.opts}
    option = options.get(arguments[start]) if start < until - 1 else None
    if option is not None and not getattr(option, "is_flag", False):
        values = ",".join(arguments[start + 1 : until + 1])
        with_commas = (
            f"several values have commas between them, as in {arguments[start]} {values}; see --help"
        )
        return VALUE_HINTS.get(option.name, with_commas)
    # The user typed `training.rounds 5`: a key of a run without `=`.
    if OVERRIDES in (one.name for one in context.command.params) and extra and extra[1] in list_axis_keys():
        return f"set it with {extra[1]}=VALUE"
    takes = [
        "KEY=VALUE for keys" if one.name == OVERRIDES else f"one {one.name.upper()}"
        for one in context.command.params
        if one.param_type_name == "argument"
    ]
    what = " and ".join(takes) or "options only"
    return f"`fedgrid {context.info_name}` takes {what}; a value with spaces needs quotes; see --help"


def _suggest_for_option(word: str, has: Collection[str]) -> str:
    """Suggest what to type for an unknown option; `has` are those of its command."""
    for text in _find_texts(word, OPTION_HINTS):
        # A text that names options fits only commands that have them.
        if set(re.findall(r"--[a-z-]+", text)).issubset(has):
            return text
    key = ABBREVIATIONS.get(word, word)
    if f"--{key}" in has:
        return f"did you mean --{key}?"
    if "--where" in has and word in AXES:
        return f"--where {word}=VALUE selects runs"
    if OVERRIDES in has:
        keys = sorted((axis for axis in list_axis_keys() if key == axis.rpartition(".")[2]), key=len)
        # A setting of an algorithm is meant only if the run itself has none of that name.
        keys = [axis for axis in keys if not axis.startswith(SETTING_PREFIX)] or keys
        return f"set it with {' or '.join(f'{axis}=VALUE' for axis in keys)}" if keys else ""
    return ""


def _find_texts(word: str, table: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Find the texts whose words include this one."""
    return (text for words, text in table if word in words.split())
