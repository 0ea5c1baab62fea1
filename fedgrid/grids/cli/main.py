"""The entry point of the command line.

Exit codes: 0 done, 1 a run failed or something it needs stopped answering, 2 nothing was started (bad input,
or a cluster that is not up), 130 interrupted.
`fedgrid --help` imports only `commands`; each command imports what it needs when it runs.
"""

import atexit
import gc
import logging
import os
import re
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from fedgrid.engine.federation.errors import ConfigError, DataError, FedgridError
from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS
from fedgrid.grids.cli.commands import launched, listings, reports, run
from fedgrid.grids.cli.commands.app import BAD_INPUT, FAILED, INTERRUPTED, FedgridCommand, set_parsers
from fedgrid.grids.cli.settings_file import PLUGINS_KEY, apply_settings, build_plugin_defaults, read_settings
from fedgrid.grids.display.plain_console import print_marked
from fedgrid.grids.ray_cluster.address_space import describe_shortage
from fedgrid.redaction import escape_controls, redact_secrets

LONGEST_MESSAGE = 2000
"""Most characters of a message; a longer one is abbreviated in the middle."""

VARIABLE_PREFIX = "FEDGRID_"
VARIABLES = [f"{VARIABLE_PREFIX}{word}" for word in ("STORAGE", "DATA", "CACHE", "TRACK", "COMMIT", "SOURCE")]
"""Environment variables of fedgrid; the last two are set in images of containers, and by `fedgrid submit`."""

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: `fedgrid run quickstart`",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for group in (run, launched, reports, listings):
    inner = [each.typer_instance for each in group.app.registered_groups]
    for registered in (each for one in (group.app, *inner) for each in one.registered_commands):
        # For all commands in one place: a command that was forgotten would treat `~` and empty texts
        # differently.
        set_parsers(registered.callback)
        registered.cls = FedgridCommand
    app.add_typer(group.app)


def show_version(is_requested: bool) -> None:
    """Print the version and the commit, and exit; called by Typer before any command."""
    if is_requested:
        from importlib.metadata import version

        from fedgrid.grids.commit import read_commit

        print(f"fedgrid {version('fedgrid')} (commit {read_commit()})")
        raise typer.Exit


def check_environment() -> None:
    """Warn of variables named FEDGRID_... that nothing reads, and check the folder of the cache.

    The cache is checked here because every command may use it.

    Raises:
        ConfigError: there can be no such cache.
    """
    from fedgrid.engine.federation.errors import suggest_name
    from fedgrid.engine.runtime.storage.user_files import find_cache_folder

    words = {name.removeprefix(VARIABLE_PREFIX).lower(): name for name in VARIABLES}
    for name in sorted(os.environ):
        if name.startswith(VARIABLE_PREFIX) and name not in VARIABLES:
            meant = suggest_name(name.removeprefix(VARIABLE_PREFIX), VARIABLES, words)
            text = f"{name} has no effect; {meant}known: {', '.join(VARIABLES)}"
            print_marked("warning:", "yellow", text)
    if "FEDGRID_CACHE" in os.environ:
        find_cache_folder()


@app.callback()
def prepare_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version, with its commit.", is_eager=True, callback=show_version
        ),
    ] = False,
) -> None:
    """Grids of clustered federated learning experiments."""
    check_environment()
    if settings := read_settings(Path.cwd()):
        # Typer undoes them when the command ends. `default_map` reaches `--plugin` of every subcommand, which
        # no environment variable does.
        context.with_resource(apply_settings(settings))
        context.default_map = build_plugin_defaults(context.command, settings.get(PLUGINS_KEY, []))


def main() -> None:
    """Run as the process of the command line; it ends without freeing memory, which would take a second."""
    prepare_output()
    leave = _ExitHandler()
    # Registered first, called last: after threads, temporary folders and Ray have ended as they should.
    atexit.register(leave)
    try:
        run_command()
    except SystemExit as end:
        leave.code = end.code
        raise


def prepare_output() -> None:
    """Open closed standard streams on the null device, and replace characters that cannot be encoded."""
    for name in ("stdout", "stderr"):
        # Open for as long as the process is.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


class _ExitHandler:
    """Ends the process at its exit with an exit code, if it has one."""

    code: str | int | None = None

    def __call__(self) -> None:
        if isinstance(self.code, int):
            with suppress(OSError, ValueError):  # Python reports it when it tries again.
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(self.code)


def run_command() -> None:
    """Run the command of the command line; every known error is one line on standard error."""
    gc.set_threshold(NEW_OBJECTS)
    # It warns of a home folder that cannot be written, and uses a temporary one.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        # Typer turns an interruption into this exit code and prints nothing.
        # Its standalone mode would also print errors over several lines.
        code = app(args=sys.argv[1:] or ["--help"], prog_name="fedgrid", standalone_mode=False) or 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except TyperException as error:
        _exit_with_message(_describe_problem(error), BAD_INPUT)
    except (ConfigError, DataError) as error:
        _exit_with_message(str(error), BAD_INPUT)
    except FedgridError as error:
        _exit_with_message(str(error), FAILED)
    except OSError as error:
        # The disk, rights or the network: nothing that a traceback explains.
        place = f"{error.filename}: " if error.filename else ""
        _exit_with_message(
            f"{place}{error.strerror or error}; fix it, and the same command continues", FAILED
        )
    except Exception as error:
        if short := describe_shortage(error):
            _exit_with_message(short, FAILED)
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        # Pydantic makes an error of its own of an interruption while it calls our code.
        code = INTERRUPTED
    if code == INTERRUPTED:
        _exit_with_message("interrupted; the same command continues", INTERRUPTED)
    sys.exit(code)


def _describe_problem(error: TyperException) -> str:
    """Describe in one line why a command line is refused, and what to type."""
    # Imports the registry of algorithms, which no help text needs.
    from fedgrid.grids.cli.hints import suggest_replacement

    instead, problem = suggest_replacement(error), error.format_message().replace(": Value error, ", ": ")
    if instead:
        # The suggestion replaces Typer's, which compares only spellings.
        problem = re.split(r" \(Possible options|\. Did you mean", problem)[0]
    return f"{problem.rstrip('.')}; {instead or 'see --help'}"


def _exit_with_message(message: str, code: int) -> NoReturn:
    """Print a message without secrets, and exit."""
    # On one line, without secrets and control characters: a message may quote a file or a server's answer.
    shown = escape_controls(redact_secrets(" ".join(message.split())))
    if len(shown) > LONGEST_MESSAGE:
        shown = f"{shown[: LONGEST_MESSAGE // 2]} ... {shown[-LONGEST_MESSAGE // 2 :]}"
    print_marked("fedgrid:", "bold red", shown)
    sys.exit(code)


if __name__ == "__main__":
    main()
