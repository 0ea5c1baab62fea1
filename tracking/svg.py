"""A small SVG: bars, lines, dots and text, in pixels from the top left."""

from collections.abc import Sequence
from typing import TypeAlias
from xml.sax.saxutils import escape, quoteattr

FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"

Values: TypeAlias = dict[str, str | float]


class Drawing:
    """Collects shapes, the later above the earlier; `str` of it is the file.

    A shape's `title` is what a browser shows when the pointer rests on it.
    """

    def __init__(self, width: float, height: float) -> None:
        self._size = (_number(width), _number(height))
        self._shapes: list[str] = []
        self.bar(0, 0, width, height, fill="white")

    def __str__(self) -> str:
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family={quoteattr(FONT)}>'
        )
        return "\n".join([head, *self._shapes, "</svg>\n"])

    def bar(self, x: float, y: float, width: float, height: float, *, fill: str, title: str = "") -> None:
        """Fill a rectangle."""
        self._add("rect", {"x": x, "y": y, "width": width, "height": height, "fill": fill}, title=title)

    def line(
        self,
        points: Sequence[tuple[float, float]],
        *,
        colour: str,
        width: float,
        dashes: str | None = None,
        name: str = "line",
    ) -> None:
        """Draw a line through `points`; `dashes` are lengths of dash and gap, `name` is its class."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        values: Values = {
            "class": name,
            "points": path,
            "fill": "none",
            "stroke": colour,
            "stroke-width": width,
        }
        if dashes:
            values["stroke-dasharray"] = dashes
        self._add("polyline", values)

    def dot(self, x: float, y: float, radius: float, *, fill: str, title: str = "") -> None:
        """Fill a circle."""
        self._add("circle", {"cx": x, "cy": y, "r": radius, "fill": fill}, title=title)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float,
        colour: str,
        anchor: str = "start",
        upwards: bool = False,
        name: str = "text",
    ) -> None:
        """Write text with its baseline at `y`, and its start, middle or end (`anchor`) at `x`."""
        values: Values = {
            "class": name,
            "x": x,
            "y": y,
            "font-size": size,
            "fill": colour,
            "text-anchor": anchor,
        }
        if upwards:
            values["transform"] = f"rotate(-90 {_number(x)} {_number(y)})"
        self._add("text", values, text=text)

    def _add(self, tag: str, values: Values, *, text: str = "", title: str = "") -> None:
        attributes = " ".join(f"{name}={quoteattr(_number(value))}" for name, value in values.items())
        inside = escape(text) + (f"<title>{escape(title)}</title>" if title else "")
        self._shapes.append(f"<{tag} {attributes}>{inside}</{tag}>" if inside else f"<{tag} {attributes}/>")


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
