"""Where MLflow is, and how to reach it. MLflow takes two seconds to import: that happens in the functions."""

import logging
import os
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https")
REACH_SECONDS = 10
"""How long a server may take to answer at all."""
REQUEST_SECONDS = 30
"""How long a server may take for a request."""
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
}
"""Of MLflow's client, where the environment does not say otherwise."""


class TrackingError(ValueError):
    """MLflow cannot be used as asked: a malformed address, a store that does not answer or refuses."""


def default_uri(storage: Path) -> str:
    """Return the address of the sqlite store in `storage`; absolute, as Ray changes the directory."""
    return f"sqlite:///{storage.absolute() / 'mlflow.db'}"


def tracking_uri(storage: Path) -> str:
    """Return MLFLOW_TRACKING_URI where it is set, else the store in `storage`.

    Raises:
        TrackingError: if MLFLOW_TRACKING_URI is not an address that can be written to.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(storage)
    scheme, separator, rest = uri.partition("://")
    if not _splits(uri) or not separator or not rest.strip("/") or scheme.split("+")[0] not in SCHEMES:
        raise TrackingError(
            f"MLFLOW_TRACKING_URI is '{shown(uri)}', which is no address of an MLflow store; give "
            "sqlite:////absolute/path/mlflow.db, a postgresql:// or mysql:// address, or http(s)://host:port"
        )
    if scheme == "sqlite" and not rest.startswith("//"):
        return f"sqlite:///{Path(rest.removeprefix('/')).absolute()}"
    return uri


def prepare(uri: str) -> None:
    """Create the store's schema; once, in the driver, as MLflow's migrations break when run at a time.

    Raises:
        TrackingError: if the store cannot be reached or created.
    """
    connect(uri)


def connect(uri: str) -> Any:
    """Return an `MlflowClient` of a store that answers; the store is created if need be.

    Raises:
        TrackingError: if the store cannot be reached or created.
    """
    with one_line(uri):
        if uri.startswith("sqlite:///"):
            Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        _reach(uri)
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
    return client


def database_file(uri: str) -> Path | None:
    """Return the file of a sqlite store, None for others."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def shown(uri: str) -> str:
    """Return the address without a user name or password, to be printed."""
    if not _splits(uri):
        return uri.rpartition("@")[2]
    return uri.replace(urlsplit(uri).netloc, urlsplit(uri).netloc.rpartition("@")[2], 1)


@contextmanager
def one_line(uri: str) -> Iterator[None]:
    """Turn whatever a store fails with into a `TrackingError` of one line that names the store."""
    # Nothing of ours should call home, or wait for it on a cluster without a way out. A request that failed
    # may have arrived: sent again by MLflow, unseen by us, it could create a run twice.
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError, ImportError) as error:
        cause = str(error).strip().splitlines() or [type(error).__name__]
        raise TrackingError(f"MLflow at {shown(uri)}: {cause[0]}") from error


def _splits(uri: str) -> bool:
    try:
        _ = urlsplit(uri).port
    except ValueError:
        return False
    return True


def _reach(uri: str) -> None:
    """Fail at once where MLflow would retry for minutes."""
    scheme = urlsplit(uri).scheme
    if scheme == "sqlite":
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as database:
            database.execute("PRAGMA schema_version")
    elif scheme in ("http", "https"):
        try:
            urllib.request.urlopen(f"{shown(uri).rstrip('/')}/health", timeout=REACH_SECONDS).close()
        except urllib.error.HTTPError as error:
            # An answer all the same: whether it lets us in is for MLflow to find out.
            error.close()
        except OSError as error:
            raise TrackingError(
                f"no MLflow server answers at {shown(uri)} ({getattr(error, 'reason', error)}); start it, or "
                "unset MLFLOW_TRACKING_URI to keep the metrics in a file beside the runs"
            ) from error
