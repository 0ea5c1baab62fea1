"""What all tests share: Ray's environment, one Ray cluster, and the folder of shared reference data."""

import os

# Before anything imports Ray, which reads some of these at import.
os.environ.update(
    {
        "RAY_AUTH_MODE": "disabled",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "OMP_NUM_THREADS": "1",
    }
)

import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script that starts the tests in the background ignores Ctrl-C for them, and so for every command that
    # they start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

RAY_GROUP = "ray"


def group_of(item: pytest.Item) -> str:
    """Return which tests run in the same worker of pytest-xdist as this one.

    Tests of a file share its fixtures; tests on the session's Ray cluster share the cluster.
    """
    return RAY_GROUP if "ray_session" in getattr(item, "fixturenames", ()) else item.nodeid.split("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """With several workers, name each test's group before pytest-xdist looks; slow groups start first."""
    if hasattr(config, "workerinput"):
        _group(items)
    yield


def _group(items: list[pytest.Item]) -> None:
    groups = {item.nodeid: group_of(item) for item in items}
    slow = {groups[item.nodeid] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (groups[item.nodeid] != RAY_GROUP, groups[item.nodeid] not in slow))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item.nodeid]))


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One cluster of four logical CPUs for all tests marked `ray`: it costs ten seconds to start."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def drawn_here() -> Iterator[None]:
    """Draw the figures of a report in this process: the workers of a suite keep the cores busy."""
    from fedgrid.tracking.report import draw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "_cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder `shared` beside the checkout: published numbers and real images."""
    folder = Path(__file__).parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no published numbers and real images: {folder} is missing")
    return folder
