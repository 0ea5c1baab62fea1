"""Start `fedgrid run` on a cluster as a Ray job, which continues when this machine is switched off."""

import asyncio
import logging
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, FedgridError, RunError
from fedgrid.grids.commit import read_commit
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.ray_cluster.token import find_token_file, protect_token
from fedgrid.grids.submit import tunnel
from fedgrid.grids.submit.grid_files import prepare_arguments

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

PACKAGE_FOLDER = Path(__file__).parents[2]
EXCLUDES = [".?*", "/runs/", "__pycache__/"]
"""Patterns that Ray leaves out of the folder that it sends, in addition to .gitignore and .rayignore."""
MOST_BYTES = 100 << 20
"""Most bytes of a folder that Ray's job server accepts."""
INTERRUPTED_CODE = 130
"""Exit code of an interrupted command."""
CHATTY_LOGGERS = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.working_dir",
    "ray._private.runtime_env.packaging",
)
JOB_ENVIRONMENT = {
    # `ray job stop` sends Ctrl-C and leaves a minute to finish the round; by default it kills after 3 s.
    "RAY_JOB_STOP_SIGNAL": "SIGINT",
    "RAY_JOB_STOP_WAIT_TIME_S": "60",
}


def submit_job(
    arguments: Sequence[str],
    *,
    cluster: Path | None,
    address: str | None,
    name: str,
    follow: bool,
    console: Console,
) -> int:
    """Run `fedgrid run` with `arguments` on a cluster; return the job's exit code, or 0 if it still runs.

    A job that was stopped counts as interrupted.

    Args:
        arguments: the arguments of `fedgrid run`. The current folder travels with the job, and with it the
            grids, plugins and images that a relative path names.
        cluster: the file that `ray up` took, to reach the job server through a tunnel.
        address: the job server's URL, instead of `cluster`.
        name: the grid's name, for the name of the job.
        follow: show the job's output until it ends; Ctrl-C ends the output, not the job.
        console: prints the job's name, its output and the commands to follow and stop it.

    Raises:
        ConfigError: if the arguments are wrong for a cluster, the cluster is not up, or its job server
            refuses the job; nothing was started.
        RunError: if the cluster no longer answers; a job that has started continues.
    """
    if (cluster is None) == (address is None):
        raise ConfigError("name the cluster: --cluster FILE, or --address http://127.0.0.1:8265")
    if address is not None and not address.startswith(("http://", "https://")):
        raise ConfigError(f"--address {address}: expected a job server, as in http://127.0.0.1:8265")
    if cluster is not None:
        tunnel.check_cluster_file(cluster)
    job = f"fedgrid-{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    # Whatever can be checked here is checked before ssh takes seconds to connect.
    entrypoint = build_command([*prepare_arguments(arguments)])
    check_size(Path.cwd())
    with tunnel.open_tunnel(cluster) if cluster else nullcontext(str(address)) as url:
        with _shorten_errors(url, ConfigError, "nothing was started; is the cluster up?"):
            client = _create_client(url)
        print_plain(console, f"sending {Path.cwd()}, without hidden files, runs/ and what .gitignore lists")
        status_command = build_manual_command(cluster, address, f"ray job status {job}")
        with _shorten_errors(url, RunError, f"to see whether the job has started: {status_command}"):
            client.submit_job(
                entrypoint=entrypoint,
                submission_id=job,
                runtime_env={
                    "working_dir": str(Path.cwd()),
                    "py_modules": [str(PACKAGE_FOLDER)],
                    "excludes": EXCLUDES,
                    "env_vars": {
                        **JOB_ENVIRONMENT,
                        "FEDGRID_COMMIT": read_commit(),
                        **_build_source_variable(arguments),
                    },
                },
            )
        print_plain(console, f"job {job} runs on the cluster; you may switch this machine off")
        print_plain(
            console,
            f"  to follow it  {build_manual_command(cluster, address, f'ray job logs --follow {job}')}",
        )
        print_plain(
            console, f"  to stop it    {build_manual_command(cluster, address, f'ray job stop {job}')}"
        )
        with _shorten_errors(url, RunError, f"the job continues: {status_command}", runs=True):
            return _follow_job(client, job, console) if follow else 0


def check_size(folder: Path) -> None:
    """Check that a folder is small enough for Ray, which would first read and pack all of it.

    Raises:
        ConfigError: it is too large.
    """
    from ray._private.runtime_env.packaging import _dir_travel, _get_excludes

    sizes: list[int] = []

    def add_size(path: Path) -> None:
        sizes.append(path.stat().st_size if path.is_file() else 0)

    # Ray's own walk over the folder, so that what is counted is what Ray sends.
    _dir_travel(folder, [_get_excludes(folder, EXCLUDES)], add_size, include_gitignore=True)
    if sum(sizes) > MOST_BYTES:
        raise ConfigError(
            f"{folder} has {sum(sizes) >> 20} MiB, and {MOST_BYTES >> 20} MiB travel with a job: list large "
            "files in .gitignore, and name data by their absolute path on the cluster"
        )


def build_command(arguments: Sequence[str]) -> str:
    """Build the job's command line, for a shell on the head."""
    run = shlex.join(["fedgrid", "run", *arguments])
    if any(argument == "--storage" or argument.startswith("--storage=") for argument in arguments):
        # With exec the signal of `ray job stop` reaches fedgrid itself, not a shell around it.
        return f"exec {run}"
    # Without a storage, results would be lost in the job's working directory.
    return f': "${{FEDGRID_STORAGE:?is not set on the head; set it, or give --storage}}"; exec {run}'


def build_manual_command(cluster: Path | None, address: str | None, ray_job: str) -> str:
    """Build the command line by which a user runs `ray job ...` against the job server."""
    if cluster is not None:
        return shlex.join(["ray", "exec", str(cluster), ray_job])
    return f"RAY_AUTH_MODE=token {ray_job} --address {address}"


def _build_source_variable(arguments: Sequence[str]) -> dict[str, str]:
    """Build the variable with the path of the grid's file here: on the cluster it differs by launch."""
    path = Path(arguments[0]) if arguments else Path()
    return {"FEDGRID_SOURCE": str(path.resolve())} if path.is_file() else {}


def _create_client(url: str) -> "JobSubmissionClient":
    """Create the client of a job server, once something answers there."""
    # Ray's client prefers these variables to the address it is given.
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["RAY_API_SERVER_ADDRESS"] = url
    from ray.job_submission import JobSubmissionClient

    for name in CHATTY_LOGGERS:
        # Ray warns of each file of 10 MiB, and of folders that it leaves out.
        logging.getLogger(name).setLevel(logging.ERROR)
    if tunnel.is_silent(url):
        # Ray's requests would wait for ever.
        raise TimeoutError(f"no answer within {tunnel.CONNECT_SECONDS} s")
    try:
        return JobSubmissionClient(url, headers=_build_headers())
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectionError("what answers there is not Ray's job server") from error


def _build_headers() -> dict[str, str]:
    """Build the header with the cluster's token; no header if there is no token."""
    protect_token(create=False)
    file = find_token_file()
    token = os.environ.get("RAY_AUTH_TOKEN") or (file.read_text().strip() if file.is_file() else "")
    return {"Authorization": f"Bearer {token}"} if token else {}


@contextmanager
def _shorten_errors(
    url: str, silent_error: type[FedgridError], advice: str, *, runs: bool = False
) -> Iterator[None]:
    """Turn errors of the job server's client into one line.

    Args:
        url: the job server.
        silent: class of the error if the server has stopped answering.
        then: end of the line: what the user can do.
        runs: whether the job runs already; default False. If not, what the server refuses is a `ConfigError`.
    """
    from aiohttp import ClientError
    from ray.exceptions import AuthenticationError

    refused = RunError if runs else ConfigError
    try:
        yield
    except AuthenticationError as error:
        cause = _take_first_line(error)
        raise refused(
            f"{url} refuses our token, from RAY_AUTH_TOKEN or {find_token_file()}: {cause}"
        ) from error
    # An error of requests is an OSError.
    except (OSError, ClientError) as error:
        raise silent_error(f"{url}: {_take_first_line(error)}; {advice}") from error
    except RuntimeError as error:
        raise refused(
            f"{url}: {_take_first_line(error)}; {advice if runs else 'nothing was started'}"
        ) from error


def _take_first_line(error: Exception) -> str:
    """Take the first line of an error's message, or the name of its class."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _follow_job(client: "JobSubmissionClient", job: str, console: Console) -> int:
    """Print the job's output until it ends; return its exit code, or 0 after Ctrl-C."""
    from ray.job_submission import JobStatus

    try:
        asyncio.run(_print_logs(client, job, console))
    except KeyboardInterrupt:
        print_plain(console, f"job {job} continues")
        return 0
    # The log also ends if the connection does: only the job's status tells how it ended.
    info = client.get_job_info(job)
    if info.status == JobStatus.SUCCEEDED:
        return 0
    if info.status == JobStatus.STOPPED:
        print_plain(console, f"job {job} was stopped")
        return INTERRUPTED_CODE
    return info.driver_exit_code or 1


async def _print_logs(client: "JobSubmissionClient", job: str, console: Console) -> None:
    """Print the job's output as it arrives."""
    async for text in client.tail_job_logs(job):
        console.out(text, end="", highlight=False)
