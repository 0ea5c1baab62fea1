"""`fedgrid submit`: the job's command line and files, refusals, and real jobs on a Ray head of their own."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import ray
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, FedgridError, RunError
from fedgrid.grids.cli import main
from fedgrid.grids.ray_cluster.local import RAY_SETTINGS
from fedgrid.grids.submit import job, tunnel
from fedgrid.grids.submit.job import build_command, build_manual_command, submit_job
from tests.helpers.manifests import list_finished
from tests.helpers.plugin_files import ALGORITHM

ROOT = Path(__file__).parents[3]
NOWHERE = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""
LOCAL = "cluster_name: nobody\nprovider: {type: local, head_ip: 127.0.0.9, worker_ips: []}\n"
HEAD = f"""
import ray
from functools import partialmethod
from ray._private.node import Node
from ray._private.parameter import RayParams
RayParams.__init__ = partialmethod(RayParams.__init__, dashboard_agent_listen_port=0)
Node.start_monitor = Node.start_log_monitor = lambda node: None
more = {{"dashboard_port": 0, "log_to_driver": False, "_system_config": {dict(RAY_SETTINGS)}}}
ray.init("local", num_cpus=1, include_dashboard=True, **more)
from ray._private.worker import global_worker
print(global_worker.node.webui_url, flush=True)
input()
"""
"""Starts a head with a free port for its agent: the tests' cluster may use the default port, and `ray.init`
has no argument for it."""
PROGRAM = f"""#!/bin/sh
if [ "$2" = fails ]; then echo "unknown preset 'fails'"; exit 2; fi
exec {Path(sys.executable).with_name("fedgrid")} "$@"
"""
"""The head's `fedgrid`: of one grid it starts no Python."""
BASE = """base: quickstart
plugins: [own.py]
algorithm: own
dataset: npz:mine.npz
split: {kind: majority, draws: 6}
model: digitnet
training: {rounds: 1}
"""


def console() -> Console:
    return Console(file=StringIO(), width=200)


def shown(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def run_by_a_shell(line: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a job's command line as Ray does, with a `fedgrid` that shows its arguments, one a line."""
    folder.mkdir(exist_ok=True)
    program = folder / "fedgrid"
    program.write_text("#!/bin/sh\nprintf '<%s>\\n' \"$@\"\n")
    program.chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin", **environment}
    return subprocess.run(line, shell=True, env=path, capture_output=True, text=True)


def test_job_runs_fedgrid_run_with_the_arguments() -> None:
    line = build_command(["paper", "--seeds", "0..4", "--storage", "s3://bucket/runs"])
    assert line == "exec fedgrid run paper --seeds 0..4 --storage s3://bucket/runs"


def test_job_without_storage_needs_one_in_the_heads_environment(tmp_path: Path) -> None:
    line = build_command(["paper"])
    ended = run_by_a_shell(line, tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "FEDGRID_STORAGE: is not set on the head; set it, or give --storage" in ended.stderr
    assert run_by_a_shell(line, tmp_path, FEDGRID_STORAGE="/srv/runs").stdout == "<run>\n<paper>\n"


def test_job_arguments_survive_the_shell(tmp_path: Path) -> None:
    odd = ["a b", "it's", '"', "$HOME", "`id`", "!1", "*", "", "a\\n", "x=[1, 2]", "é"]
    ended = run_by_a_shell(build_command([*odd, "--storage", "/srv"]), tmp_path)
    assert ended.stdout.splitlines() == [f"<{word}>" for word in ["run", *odd, "--storage", "/srv"]]


def test_folder_that_is_too_large_for_a_job_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what is hidden, ignored, or the usual storage."""
    monkeypatch.setattr(job, "MOST_BYTES", 100)
    for name in ("grid.yaml", "runs/big", ".venv/big", "data/big"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(70))
    with pytest.raises(ConfigError, match=r"MiB travel with a job.*\.gitignore.*absolute path"):
        job.check_size(tmp_path)
    (tmp_path / ".gitignore").write_text("data/\n")
    job.check_size(tmp_path)


def test_commands_to_follow_or_stop_the_job() -> None:
    assert (
        build_manual_command(Path("my cluster.yaml"), None, "ray job stop j")
        == "ray exec 'my cluster.yaml' 'ray job stop j'"
    )
    assert (
        build_manual_command(None, "http://127.0.0.1:8265", "ray job stop j")
        == "RAY_AUTH_MODE=token ray job stop j --address http://127.0.0.1:8265"
    )


def refusal(
    *arguments: str,
    cluster: Path | None = None,
    address: str | None = None,
    error: type[FedgridError] = ConfigError,
) -> str:
    """Submit `paper`, or other arguments; return the message of the error."""
    given = list(arguments) or ["paper"]
    with pytest.raises(error) as refused:
        submit_job(given, cluster=cluster, address=address, name="paper", follow=True, console=console())
    return str(refused.value)


@pytest.mark.parametrize(
    ("cluster", "address", "said"),
    [
        (None, None, "name the cluster: --cluster FILE, or --address"),
        ("cluster.yaml", "http://127.0.0.1:8265", "name the cluster: --cluster FILE, or --address"),
        (None, "127.0.0.1:8265", "expected a job server, as in http://127.0.0.1:8265"),
        ("nowhere.yaml", None, "cannot read nowhere.yaml: No such file or directory"),
        ("README.md", None, "README.md is not YAML"),
        ("constraints.txt", None, "constraints.txt: expected keys"),
    ],
)
def test_submit_refuses_what_is_no_cluster(
    cluster: str | None, address: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert said in refusal(cluster=Path(cluster) if cluster else None, address=address)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.yaml"], "no file nowhere.yaml"),
        (["paper", "--storage", "runs"], "--storage runs: the cluster's machines need"),
        (["paper", "--storage=runs"], "--storage runs: the cluster's machines need"),
        (["paper", "--data-dir", "~/d"], "--data-dir ~/d: the cluster's machines need"),
        (["paper", "--storage", "s3://key:secret@bucket/runs"], "--storage s3://***@bucket/runs: Ray shows"),
    ],
)
def test_submit_refuses_arguments_that_mean_nothing_on_a_cluster(arguments: list[str], said: str) -> None:
    assert said in refusal(*arguments, address=NOWHERE)


def test_submit_to_a_cluster_that_is_not_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    file = tmp_path / "cluster.yaml"
    file.write_text(LOCAL + "auth: {ssh_user: nobody}\n")
    said = refusal(cluster=file)
    assert f"no connection to the head of {file}" in said
    assert "Head node of cluster (nobody) not found!" in said


def test_submit_to_an_address_without_a_server_says_that_nothing_was_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    said = refusal(address=NOWHERE)
    assert said.startswith("http://127.0.0.1:9: Failed to connect to Ray at address")
    assert said.endswith("; nothing was started; is the cluster up?")


def test_submit_to_a_server_that_never_answers_ends_after_a_stated_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tunnel, "CONNECT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert refusal(address=url).startswith(f"{url}: no answer within 0.05 s; nothing was started")


VERSION = {"/api/version": (200, json.dumps({"ray_version": ray.__version__}))}


@pytest.mark.parametrize(
    ("answers", "error", "said"),
    [
        ({"/api/version": (200, "[1]")}, ConfigError, "is not Ray's job server; nothing was"),
        ({"/api/version": (404, "")}, ConfigError, "Version check returned 404"),
        (VERSION | {"/api/packages/": (500, "full")}, ConfigError, "code 500: full; nothing was started"),
        (VERSION | {"/api/packages/": (200, ""), "/api/jobs/": (0, "")}, RunError, "whether the job has"),
    ],
    ids=["no-job-server", "no-jobs", "refused", "lost-reply"],
)
def test_submit_says_whether_anything_was_started(
    answers: dict[str, tuple[int, str]], error: type[FedgridError], said: str
) -> None:
    with answering(answers) as url:
        assert said in refusal(address=url, error=error)


@contextmanager
def answering(answers: dict[str, tuple[int, str]]) -> Iterator[str]:
    """Serve these answers by the beginning of the path, on loopback; code 0 breaks the connection."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, text = next(
                (each for path, each in answers.items() if self.path.startswith(path)), (200, "")
            )
            if code:
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *given: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def job_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Ray head of its own that asks for the token `right`; its job server's address."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "fedgrid").write_text(PROGRAM)
    (folder / "fedgrid").chmod(0o755)
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "right"}
    environment["PATH"] = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert head.stdout is not None
    yield f"http://{head.stdout.readline().strip()}"
    head.communicate("\n")


class Interrupted(StringIO):
    """A screen; Ctrl-C is pressed when it shows something."""

    def write(self, text: str) -> int:
        if "Running" in text:
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


class Running:
    """A job's client, of a job that does not end; it has nothing to stop it with."""

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        yield f"Running {job}\n"
        await asyncio.Event().wait()


def test_ctrl_c_ends_the_output_and_not_the_job() -> None:
    screen = Console(file=Interrupted(), width=200)
    assert job._follow_job(Running(), "mine", screen) == 0
    assert shown(screen).splitlines() == ["Running mine", "job mine continues"]


@pytest.mark.slow
@pytest.mark.ray
def test_submitted_grid_takes_its_base_its_plugin_and_its_images_along(
    job_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right")
    monkeypatch.chdir(tmp_path)
    pixels = (np.arange(40 * 64).reshape(40, 8, 8) % 251).astype(np.uint8)
    images = {f"{part}_images": pixels for part in ("train", "test")}
    labels = {f"{part}_labels": np.arange(40) % 2 for part in ("train", "test")}
    np.savez(tmp_path / "mine.npz", **images, **labels)
    for name in ("grids", "common"):
        (tmp_path / name).mkdir()
    (tmp_path / "grids" / "small.yaml").write_text("base: ../common/base.yaml\nclients: 3\n")
    (tmp_path / "common" / "base.yaml").write_text(BASE)
    (tmp_path / "common" / "own.py").write_text(ALGORITHM)
    screen = console()
    options = [str(tmp_path / "grids" / "small.yaml"), "--in-process", "--storage", str(tmp_path / "runs")]
    code = submit_job(options, cluster=None, address=job_server, name="my grid", follow=True, console=screen)
    assert code == 0, shown(screen)
    assert "job fedgrid-my-grid-" in shown(screen)
    assert len(list_finished(tmp_path / "runs", "npz_mine-3-majority-own-*")) == 1


@pytest.mark.slow
@pytest.mark.ray
def test_submit_returns_the_exit_code_of_a_failed_job(
    job_server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right")
    command = ["fedgrid", "submit", "--address", job_server, "--", "fails", "--storage", "/nowhere"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main.run_command()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert ("unknown preset 'fails'" in out, err) == (True, "")


@pytest.mark.slow
@pytest.mark.ray
def test_submit_with_a_wrong_token_is_refused(job_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    assert "token, from RAY_AUTH_TOKEN" in refusal(address=job_server)
