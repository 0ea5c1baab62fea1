"""Colours, markers and settings of all figures, and how they are saved; equal figures give equal bytes."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib
from matplotlib import style
from matplotlib.figure import Figure

from fedgrid.arguments import check_arguments, check_choice
from fedgrid.tracking.names import SUFFIX

COLUMN, PAGE = 3.4, 7.0
"""Widths of a column and of a page, in inches."""
INK, FAINT, GRID = "#333333", "#777777", "#E3E3E3"
SMALL = 6.5
"""Font size of text inside panels, in points."""
SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelpad": 3,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlepad": 4,
    "axes.titlesize": 7.5,
    # A fixed place: letting matplotlib search for one takes time.
    "axes.titley": 1.0,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    # Fallbacks for an SVG in a browser or editor without the first font.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 7.5,
    # A map in an SVG keeps one pixel per client and round, instead of 72 per inch.
    "image.composite_image": False,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 7,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.7,
    "ytick.color": INK,
    "ytick.labelsize": 7,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.7,
}
SIZES = ("font.size", "axes.labelsize", "axes.titlesize", "legend.fontsize")
FIXED_SETTINGS = {
    **{key: SETTINGS[key] for key in (*SIZES, "xtick.labelsize", "ytick.labelsize")},
    **{key: SETTINGS[key] for key in ("axes.labelpad", "axes.titlepad", "axes.titley")},
    # Names may have dollars and underscores.
    "text.parse_math": False,
    "text.usetex": False,
}
"""Settings that a style of the user's does not change: panels are laid out for text of this size."""
OwnStyle: TypeAlias = str | Path | Mapping[str, Any]
"""Name of a style of matplotlib's, a file (`.mplstyle`, matplotlibrc), or settings."""
_own: ContextVar[tuple[OwnStyle, ...]] = ContextVar("own styles", default=())
_in_use: ContextVar[tuple[OwnStyle, ...] | None] = ContextVar("own styles in use", default=None)
DASHED = (0, (3.5, 1.5))
HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Colours of hidden groups, and of a single line."""


@dataclass(frozen=True)
class Style:
    """Colour, marker and line of an algorithm."""

    colour: str
    marker: str
    line: Any = "-"
    filled: bool = True

    @property
    def line_settings(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for a line with markers."""
        return {"color": self.colour, "linestyle": self.line, **self.marker_settings}

    @property
    def marker_settings(self) -> dict[str, Any]:
        """Arguments of `Axes.plot` for markers without a line."""
        face = self.colour if self.filled else "white"
        return {"marker": self.marker, "markeredgecolor": self.colour, "markerfacecolor": face}


# Okabe and Ito (2008): safe for colour blindness. Their yellow is left out, too pale on paper.
PUBLISHED = {
    "fedavg": Style("#7F7F7F", "o"),
    "sattler": Style("#E69F00", "s"),
    "briggs": Style("#D55E00", "D"),
    "ocfl-kmeans": Style("#0072B2", "^"),
    "ocfl-affinity": Style("#CC79A7", "v"),
    "ocfl-meanshift": Style("#56B4E9", "P"),
    "ocfl-hdbscan": Style("#009E73", "X"),
}
DOTTED = (0, (1, 1.2))
REFERENCES = {
    "oracle": Style("#000000", "*", DOTTED, filled=False),
    "solo": Style("#000000", "h", DOTTED, filled=False),
    "ward-told": Style("#000000", "d", DOTTED, filled=False),
}
"""Rows to compare with, no competitors: dotted black lines, so that colours are the competitors'."""
# Tol's muted scheme, also safe for colour blindness.
OTHER_COLOURS = ("#332288", "#882255", "#117733", "#999933", "#88CCEE", "#000000")
OTHER_MARKERS = "<>h*p"


def choose_styles(algorithms: Sequence[str]) -> dict[str, Style]:
    """Choose the style of each algorithm: fixed for the papers' and references, dashed if as published."""
    plain = dict.fromkeys(name.removesuffix(SUFFIX) for name in algorithms)
    fixed = PUBLISHED | REFERENCES
    # A method and its variant as published share a colour: the line says which is which.
    others = [name for name in plain if name not in fixed]
    pairs = zip(others, cycle(OTHER_COLOURS), cycle(OTHER_MARKERS), strict=False)
    by_name = fixed | {name: Style(colour, marker) for name, colour, marker in pairs}
    return {
        name: replace(by_name[name.removesuffix(SUFFIX)], line=DASHED, filled=False)
        if name.endswith(SUFFIX)
        else by_name[name]
        for name in algorithms
    }


class PaperFigure(Figure):
    """A figure that does not depend on the user's matplotlib settings, but for those of `style_context`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Create an empty figure, with the styles of the current `style_context`."""
        super().__init__(*arguments, **settings)
        self.own_styles = _own.get()

    def draw(self, renderer: Any) -> None:
        """Draw with our settings: matplotlib makes ticks and finds fonts only here."""
        with paper_style(self):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        """Format the figure for a cell of a notebook, which shows only pyplot's figures by itself."""
        with paper_style(self), BytesIO() as file:
            self.savefig(file, format="png", dpi=125)
            return file.getvalue()


@contextmanager
def style_context(*styles: OwnStyle) -> Iterator[None]:
    """Draw the figures of this block with styles of the user's, on top of ours.

    Args:
        styles: as of `matplotlib.style.use`; none: the settings in which `matplotlib.rcParams` differ from
            the defaults. Sizes of figures and of text stay, the colours of algorithms too, and text is never
            LaTeX.

    Raises:
        OSError: there is no such style.
    """
    before = _own.set(styles or (_changed_settings(),))
    try:
        with paper_style():
            pass
        yield
    finally:
        _own.reset(before)


def _changed_settings() -> dict[str, Any]:
    """Collect the settings of `matplotlib.rcParams` that differ from the defaults."""
    # Settings of windows belong to no style, and a figure has its own size.
    no_style = (
        *("backend", "date.epoch", "docstring", "figure.", "interactive", "keymap", "savefig.directory"),
        *("timezone", "tk.", "toolbar", "webagg"),
    )
    return {
        key: value
        for key, value in matplotlib.rcParams.items()
        if not key.startswith(no_style) and value != matplotlib.rcParamsDefault[key]
    }


@contextmanager
def paper_style(figure: Figure | None = None) -> Iterator[None]:
    """Use our settings instead of the user's matplotlibrc; `save` sets the ids in an SVG.

    On top of them are the styles that a `figure` was made with, without one those of `style_context`.
    """
    own = _own.get() if figure is None else getattr(figure, "own_styles", ())
    # Setting them again takes milliseconds, and a report enters here several times for each figure.
    if _in_use.get() == own:
        yield
        return
    before = _in_use.set(own)
    # `save` has set the salt around this block, and the defaults below would reset it.
    salt = {"svg.hashsalt": matplotlib.rcParams["svg.hashsalt"]}
    try:
        settings = ["default", SETTINGS, *own, FIXED_SETTINGS, salt]
        with matplotlib.rc_context(), style.context(settings), boxes_for_missing_glyphs():
            yield
    finally:
        _in_use.reset(before)


@contextmanager
def boxes_for_missing_glyphs() -> Iterator[None]:
    """Draw letters that the font lacks as boxes, without a warning for each; an SVG has the text."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


@check_arguments()
def save(figure: Figure, path: Path | str) -> None:
    """Write a figure as SVG, PDF or PNG, according to the suffix of the path.

    Other formats of matplotlib's have a date in them.

    Raises:
        ArgumentError: no format has that suffix.
        OSError: the file cannot be written.
    """
    path = Path(path)
    path.write_bytes(encode_figure(figure, path.name))


def encode_figure(figure: Figure, name: str) -> bytes:
    """Encode a figure as a file of this name, whose suffix is SVG, PDF or PNG, as `save` writes it.

    Raises:
        ArgumentError: no format has that suffix.
    """
    suffix = Path(name).suffix.lower()
    kind = suffix.removeprefix(".")
    check_choice("format of a figure", kind, figure.canvas.get_supported_filetypes())
    # Dates and versions in the files would make equal figures differ in their bytes.
    without_dates = {
        ".pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
        ".png": {"Software": None},
        ".svg": {"Creator": None, "Date": None},
    }
    # The salt makes the ids in an SVG the same each time, and different between figures of one page.
    with paper_style(figure), matplotlib.rc_context({"svg.hashsalt": name}), BytesIO() as file:
        figure.savefig(file, format=kind, metadata=without_dates.get(suffix))
        return file.getvalue()
