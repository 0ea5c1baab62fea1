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

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One cluster of four logical CPUs for all tests marked `ray`: it costs ten seconds to start."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder `shared` beside the checkout: published numbers and real images."""
    folder = Path(__file__).parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no published numbers and real images: {folder} is missing")
    return folder
