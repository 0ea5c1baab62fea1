"""Write the figure of `--figure`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError, DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_SUFFIXES = (".pdf", ".png", ".svg")


def check_format(path: Path) -> None:
    """Check that a file's suffix is one of `FIGURE_SUFFIXES`.

    Raises:
        ConfigError: it is none of `FIGURE_SUFFIXES`.
    """
    if path.suffix not in FIGURE_SUFFIXES:
        raise ConfigError(
            f"--figure {path}: expected a file name that ends with {' or '.join(FIGURE_SUFFIXES)}"
        )


def write_figure(path: Path, draw_figure: "Callable[[], Figure]") -> None:
    """Draw a figure and write it to a file.

    Args:
        path: the file; its suffix decides the format.
        figure: draws the figure; called after matplotlib is imported.

    Raises:
        DataError: the file cannot be written.
    """
    # matplotlib takes a second, which other commands do not need.
    from fedgrid.tracking import figures

    drawn = draw_figure()
    try:
        figures.save(drawn, path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; name another file") from error
