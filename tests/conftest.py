"""What all tests share: Ray's environment, one Ray cluster, and the folder of shared reference data."""

import os

# Before anything imports Ray, which reads some of these at import.
os.environ.update(
    {
        "RAY_ADDRESS": "local",  # Never a cluster that runs here, or has left its address behind.
        "RAY_AUTH_MODE": "disabled",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "OMP_NUM_THREADS": "1",
        "FEDGRID_TRACK": "none",  # MLflow takes as long as small runs do: see `in_mlflow`.
    }
)

# Dozens of processes that the tests start import our modules: compiled once, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import gc
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script that starts the tests in the background ignores Ctrl-C for them, and so for every command that
    # they start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MEMORY, ROOM = Path("/dev/shm"), 8 * 10**9
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    # Each file of a storage is flushed, for which a disk takes milliseconds: a tenth of the suite's time.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

sys.dont_write_bytecode = False
TESTS = Path(__file__).parent
RAY_GROUP = "ray"


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder that all processes of this test run share, workers of pytest-xdist included."""
    from tests.helpers.command_line import TEST_RUN_FOLDER

    if not hasattr(config, "workerinput"):
        folder = TemporaryDirectory(prefix="fedgrid-tests-")
        os.environ[TEST_RUN_FOLDER] = folder.name
        config.add_cleanup(folder.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which took a quarter of the time and found nothing to free.

    What is there then (modules and tests) lives to the end, and is not looked through again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def group_of(file: str) -> str:
    """Return which tests run in the same worker of pytest-xdist as those of a file, relative to the checkout.

    Tests of a file share its fixtures; those on the session's Ray cluster share the cluster.
    """
    return RAY_GROUP if "ray_session" in (TESTS.parent / file).read_text() else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out groups instead of files. (`--dist loadgroup` sets node ids, which pytest 9.2 ignores.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(file_of(nodeid))

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            """Count in the last three groups: a worker gets one more when two tests are left of all."""
            return super()._pending_of({scope: workload[scope] for scope in list(workload)[-3:]})

    return Groups(config, log) if config.getvalue("dist") == "loadfile" else None


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, start the slow groups first."""
    if hasattr(config, "workerinput"):
        slow = {file_of(item.nodeid) for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: _rank(file_of(item.nodeid), slow))


def _rank(file: str, slow: set[str]) -> int:
    return 0 if group_of(file) == RAY_GROUP else 1 if file in slow else 2


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker report what it called and what went wrong, not each fixture that it made and took down.

    Half of the messages are left: they took a millisecond of the processor a test.
    """
    asked = item.config.option
    if not hasattr(item.config, "workerinput") or asked.durations is not None or asked.xmlpath is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)  # Shows the progress.
    return True


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One cluster of four logical CPUs for all tests marked `ray`, of fewer processes than a user's."""
    import ray

    from fedgrid.grids.ray_cluster.local import RAY_SETTINGS, limit_processes
    from tests.helpers.forked_workers import forked_workers

    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    with forked_workers():
        with limit_processes():
            ray.init("local", num_cpus=4, _system_config=dict(RAY_SETTINGS), **quiet)
        yield
        ray.shutdown()


@pytest.fixture(scope="session")
def quick_stores() -> Iterator[None]:
    """Let MLflow open a store without parsing its seventy migrations each time, to see which is the last."""
    from mlflow.store.db import utils

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "_get_latest_schema_revision", cache(utils._get_latest_schema_revision))
        yield


@pytest.fixture(scope="module")
def in_mlflow(quick_stores: None) -> Iterator[None]:
    """Track runs in MLflow, as users do who say nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDGRID_TRACK", "mlflow")
        yield


@pytest.fixture(scope="module")
def unrendered() -> Iterator[None]:
    """Compose figures and leave their files without them: to render one takes longer than a small run."""
    from fedgrid.tracking import figures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save", lambda figure, path: path.write_text('<svg viewBox="0 0 9 9"/>'))
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder `shared` beside the checkout: published numbers and real images."""
    folder = Path(__file__).parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no published numbers and real images: {folder} is missing")
    return folder
