"""One small grid of a user with a name that stands nowhere else, and its bundle."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgrid.engine.runtime.plugins import active
from tests.helpers.bundles import HOST, USER, make_bundle, make_grid


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the user."""
    home = tmp_path_factory.mktemp(f"home-of-{USER}")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("USER", "LOGNAME"):
            patch.setenv(name, USER)
        patch.setenv("HOME", str(home))
        patch.setattr("socket.gethostname", lambda: HOST)
        patch.setattr("platform.node", lambda: HOST)
        make_grid(home)
        make_bundle(home / "runs", home / "mine.zip")
    return home


@pytest.fixture(scope="session")
def bundle(home: Path) -> Path:
    return home / "mine.zip"


@pytest.fixture(autouse=True)
def no_plugins() -> Iterator[None]:
    """Leave no plugin in use."""
    yield
    active.use_plugins()
