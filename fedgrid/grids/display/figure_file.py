"""The file of `--figure`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError, DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".pdf", ".png", ".svg")


def check_format(path: Path) -> None:
    """Refuse a file whose name says no format of figures.

    Raises:
        ConfigError: it is none of `FORMATS`.
    """
    if path.suffix not in FORMATS:
        raise ConfigError(f"--figure {path}: expected a file name that ends with {' or '.join(FORMATS)}")


def draw(path: Path, figure: "Callable[[], Figure]") -> None:
    """Write a figure to a file.

    Raises:
        DataError: the file cannot be written.
    """
    # matplotlib takes a second, which other commands do not need.
    from fedgrid.tracking import figures

    drawn = figure()
    try:
        figures.save(drawn, path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; name another file") from error
