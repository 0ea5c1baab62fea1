"""The page of the presets, from the comments at the top of their files."""

from docs.reference.markdown import code, linked, page, table
from fedgrid.grids.presets.preset_files import list_presets, read_preset_text, read_top_comment


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    rows = [(code(name), linked(read_top_comment(read_preset_text(name)), "../")) for name in list_presets()]
    return {
        "reference/presets.md": page(
            "# Presets",
            "Grids that come with fedgrid: `fedgrid run NAME`, or `base: NAME` in a file "
            "([how to](../presets.md)). On the terminal: `fedgrid list presets`.",
            table(("preset", "what it is"), rows),
        )
    }
