"""The files of a storage's runs that are the same bytes every time, for scripts that compare them."""

from pathlib import Path

CLOCKS = ("timings.parquet", "manifest.json", "manifest-before.json", "log.txt", "mlflow.json")
"""Files with wall-clock times; all others in a run's folder are the same bytes every time."""


def read_files(storage: Path) -> dict[str, bytes]:
    """Read the files of all runs, without those of `CLOCKS`."""
    folders = [path.parent for path in storage.glob("*/config.json")]
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(storage)): path.read_bytes() for path in paths if path.name not in CLOCKS}


def check(is_right: bool, what: str) -> None:
    """Print what a script has seen; end it if that is wrong."""
    print(f"{'ok' if is_right else 'WRONG'}: {what}", flush=True)
    if not is_right:
        raise SystemExit(1)
