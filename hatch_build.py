"""Mend the links `src/fedgrid/<folder>` at an editable install: a zip download has text files there."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("algorithms", "engine", "grids", "tracking")


class Links(BuildHookInterface):
    """Makes a link to each folder at the top where there is none, or a text file in its place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Mend the links, if `version` is "editable"; a wheel needs none.

        Raises:
            OSError: if this system makes no links, as Windows without its developer mode.
        """
        if version != "editable":
            return
        for folder in FOLDERS:
            link = Path(self.root, "src", "fedgrid", folder)
            if not link.is_dir():
                link.unlink(missing_ok=True)
                link.symlink_to(Path("..", "..", folder), target_is_directory=True)
