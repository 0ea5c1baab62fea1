"""Address of the MLflow store, connections to it, and its errors.

Functions import MLflow where they need it, because that takes two seconds which most commands do without.
"""

import logging
import os
import shlex
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import expand_path
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.redaction import redact_secrets
from fedgrid.sealed_json import seal_values

SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https")
REACH_SECONDS = 10
"""Timeout of the first request to a server, in seconds."""
REQUEST_SECONDS = 30
"""Timeout of each request to a server, in seconds."""
DAMAGED_HINT = "; move the file away, and `fedgrid sync GRID` logs a grid's runs to a new one"
"""Next step that the error of a damaged SQLite file names."""
CLIENT_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Settings of MLflow's client, unless the environment has other values."""


def default_uri(storage: Path) -> str:
    """Build the address of the SQLite store in `storage`.

    It is absolute because Ray changes the working folder of its processes.
    """
    path = str(storage.absolute() / "mlflow.db")
    quoted = _quote_path(path)
    # MLflow makes the folders of an address as it stands, quoted or not, unless that names a driver.
    return f"sqlite:///{path}" if quoted == path else f"sqlite+pysqlite:///{quoted}"


def artifact_root(storage: Path) -> Path:
    """Return the folder for the artifacts of a store in `storage`."""
    return storage / "mlartifacts"


def tracking_uri(storage: Path) -> str:
    """Read MLFLOW_TRACKING_URI, or build the address of the store in `storage` if that is not set.

    Raises:
        TrackerFailed: MLFLOW_TRACKING_URI is not the address of a store.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(storage)
    scheme, separator, rest = uri.partition("://")
    if not _is_parsable(uri) or not separator or not rest.strip("/") or scheme.split("+")[0] not in SCHEMES:
        raise TrackerFailed(
            f"MLFLOW_TRACKING_URI is '{uri}', which is not the address of an MLflow store; use "
            "sqlite:////absolute/path/mlflow.db, a postgresql:// or mysql:// address, or http(s)://host:port"
        )
    return f"{scheme}:///{_local_path(uri, rest)}" if scheme.split("+")[0] == "sqlite" else uri


def _local_path(uri: str, rest: str) -> str:
    """Build the absolute path of the file that MLFLOW_TRACKING_URI names, with what follows it."""
    # A store in memory would end with the tracker's process, and every process would have its own.
    if not rest.startswith("/") or ":memory:" in rest:
        raise TrackerFailed(
            f"MLFLOW_TRACKING_URI is '{redact_secrets(uri)}': a SQLite file has three slashes, as in "
            "sqlite:///mlflow.db, or sqlite:////absolute/path/mlflow.db"
        )
    given = rest[1:]
    path = expand_path(given, "MLFLOW_TRACKING_URI")
    if Path(given).is_absolute():
        return given
    return _quote_path(str(path)) if path.is_absolute() else f"{_quote_path(str(Path.cwd()))}/{given}"


def _quote_path(path: str) -> str:
    """Quote a path as SQLAlchemy reads it in an address, where `%41` is A and `?` ends the path."""
    return path.replace("%", "%25").replace("?", "%3F")


class _ConvertingClient:
    """An `MlflowClient` whose methods raise `TrackerFailed`, as in `convert_errors`."""

    def __init__(self, uri: str, client: Any) -> None:
        self._uri = uri
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return convert_errors(self._uri)(getattr(self._client, name))


def open_client(uri: str) -> Any:
    """Connect to the store, which must answer; a missing SQLite store is created.

    Returns:
        An `MlflowClient` whose methods raise `TrackerFailed` if the store fails.

    Raises:
        TrackerFailed: The store cannot be reached or created.
    """
    with convert_errors(uri):
        if file := database_file(uri):
            file.parent.mkdir(parents=True, exist_ok=True)
        # Before the import of MLflow: a server that does not answer is reported at once.
        check_reachable(uri)
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        # MLflow logs errors of its database over many lines, and raises them too; one line of them is shown.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        client = MlflowClient(tracking_uri=uri)
        # The constructor does not connect. A request makes the tables of a new store, and shows errors here.
        client.search_experiments(max_results=1)
    return _ConvertingClient(uri, client)


def find_experiment(uri: str, name: str) -> str | None:
    """Find the id of an experiment, None if there is none; a SQLite file is read without importing MLflow.

    Raises:
        TrackerFailed: The store fails.
        sqlite3.Error: The SQLite file cannot be read.
    """
    if file := database_file(uri):
        with closing(sqlite3.connect(file)) as database:
            query = "SELECT experiment_id FROM experiments WHERE name = ?"
            row = database.execute(query, (name,)).fetchone()
        return str(row[0]) if row else None
    experiment = open_client(uri).get_experiment_by_name(name)
    return None if experiment is None else str(experiment.experiment_id)


def database_file(uri: str) -> Path | None:
    """Parse the path of a SQLite store's file, None for stores of other kinds."""
    scheme, _, path = uri.partition(":///")
    return Path(unquote(path.partition("?")[0])) if scheme.split("+")[0] == "sqlite" else None


def is_missing(uri: str) -> bool:
    """Check whether the store is a SQLite file that does not exist."""
    file = database_file(uri)
    return file is not None and not file.exists()


def is_marked(mark: Path, uri: str, **facts: Any) -> bool:
    """Check whether a mark says that this store has the run next to it, with these facts.

    Args:
        mark: File that `write_mark` has written, or none.
        uri: Address of the store.
        facts: Further entries that the mark must have.

    Raises:
        OtherVersion: Another version of fedgrid wrote the mark.
    """
    try:
        # A mark that cannot be read counts as none: at worst the run is logged again.
        values = unseal_file(mark)
    except (FileNotFoundError, DamagedFile, UnreadableFile):
        return False
    return all(values.get(name) == value for name, value in {"uri": redact_secrets(uri), **facts}.items())


def write_mark(storage: Storage, mark: Path, uri: str, **facts: Any) -> None:
    """Write a mark which says that this store has the run next to it.

    Args:
        storage: Storage of the mark.
        mark: Path of the file in the storage.
        uri: Address of the store, which is written without secrets.
        facts: Further entries.

    Raises:
        OSError: The file cannot be written.
        RunError: The storage's URI does not take the file.
    """
    storage.put({storage.name_path(mark): seal_values({"uri": redact_secrets(uri), **facts}).encode()})


@contextmanager
def convert_errors(uri: str) -> Iterator[None]:
    """Convert the errors of a store to a `TrackerFailed` with one line that names the store."""
    # No telemetry: it would wait for a timeout on a cluster without internet. No retries by MLflow: a failed
    # request may have arrived, and repeating it could create a run twice.
    for name, value in CLIENT_SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        yield
    except _error_classes() as error:
        # SQLAlchemy's first line may be about its own session.
        lines = [line for line in str(error).strip().splitlines() if "autoflush" not in line]
        cause = lines or [type(error).__name__]
        # Errors of other kinds, such as a full disk, have classes of their own.
        step = DAMAGED_HINT if type(error) is sqlite3.DatabaseError else ""
        raise TrackerFailed(f"MLflow at {uri}: {explain_cause(cause[0], uri)}{step}") from error


def _error_classes() -> tuple[type[Exception], ...]:
    """Return the classes of a store's errors.

    Python evaluates an `except` clause only when there is an error, so that code without MLflow does not
    import it.
    """
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError, ImportError


def explain_cause(cause: str, uri: str) -> str:
    """Add the command that upgrades a store to an error about tables of another version.

    Args:
        cause: MLflow's reason for the error.
        uri: Address of the store.

    Returns:
        The reason, with the command if the tables are of another version.
    """
    if "out-of-date database schema" not in cause:
        return cause
    command = shlex.join(["mlflow", "db", "upgrade", uri])
    return f"the store's tables are not those of MLflow {version('mlflow')}; `{command}` upgrades older ones"


def _is_parsable(uri: str) -> bool:
    """Check whether an address can be parsed."""
    try:
        _ = urlsplit(uri).port
    except ValueError:
        return False
    return True


def _health_address(uri: str) -> str:
    """Build the address that answers whether a server is up, without a user name, which urllib refuses."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}/health", "", ""))


def check_reachable(uri: str) -> None:
    """Check that the store answers, because MLflow would retry for minutes; an empty SQLite file is created.

    Raises:
        TrackerFailed: No server answers.
        sqlite3.Error: A SQLite store cannot be read.
    """
    if file := database_file(uri):
        with closing(sqlite3.connect(file)) as database:
            # Reading the list of tables finds damage at once; MLflow would retry for a minute.
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    elif uri.startswith("http"):
        try:
            urllib.request.urlopen(_health_address(uri), timeout=REACH_SECONDS).close()
        except urllib.error.HTTPError as error:
            # The server answers; MLflow reports whether it grants access.
            error.close()
        except OSError as error:
            raise TrackerFailed(
                f"no MLflow server answers at {uri} ({getattr(error, 'reason', error)}); start it, or "
                "unset MLFLOW_TRACKING_URI to keep the metrics in a file next to the runs"
            ) from error
