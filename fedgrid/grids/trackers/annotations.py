"""A user's note and tags of a run, in `tags.json` in its folder.

They are no part of the run's id, records or checksums, so that a note may change after the run is finished.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.presets.axis_keys import list_axis_keys
from fedgrid.redaction import escape_controls
from fedgrid.sealed_json import seal_values

FILE = "tags.json"
MAX_LENGTH = 4000
"""Most characters of a note and of all tags together. MLflow takes 8000 of a note, which stands there above
the run's description."""
TAG_KEY = re.compile(r"\w[\w-]{0,59}")
"""Pattern of a tag's key. It has no dots, because the names of MLflow's own tags and of further axes have
them."""
RESERVED_TAGS = (
    "grid",
    "scenario",
    "model",
    "variant",
    "host",
    "commit",
    "versions",
    "source",
    "command",
    "trial",
)
"""Tags that fedgrid itself sets in MLflow, in addition to those of axes."""


@dataclass(frozen=True)
class Annotations:
    """A user's note and tags of one run."""

    note: str = ""
    """Text of any number of lines, empty by default."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Key -> value, none by default."""

    def apply_changes(self, given: Sequence[str], note: str | None) -> Self:
        """Build annotations with tags set or removed and, unless `note` is None, with another note.

        Args:
            given: Changes of tags: KEY=VALUE sets a tag, KEY= removes it.
            note: The new note, where empty text removes it; None leaves it.

        Raises:
            ConfigError: A change is malformed or too long, or names a tag to remove that the run does not
                have.
        """
        tags = dict(self.tags)
        for text in given:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals:
                raise ConfigError(f"'{text}': expected KEY=VALUE, as in status=good, or KEY= to remove a tag")
            if value:
                tags[key] = value
            elif tags.pop(key, None) is None:
                raise (
                    unknown_name_error("tag", key, tags)
                    if tags
                    else ConfigError(f"'{text}': the run has no tags")
                )
        annotations = type(self)(self.note if note is None else note.strip(), tags)
        annotations._check()
        return annotations

    def format_lines(self) -> list[str]:
        """Format note and tags as lines of a page, none for what is empty."""
        tags = ", ".join(f"{key}={value}" for key, value in self.tags.items())
        return [f"{name}: {text}" for name, text in (("Note", self.note), ("Tags", tags)) if text]

    def write_file(self, folder: Path, storage: Storage) -> None:
        """Write them to a run's folder, in place of what is there.

        Raises:
            RunError: The file cannot be written.
        """
        text = seal_values({"note": self.note, "tags": dict(self.tags)})
        with disk_errors(folder):
            storage.put({f"{folder.name}/{FILE}": text.encode()})

    def _check(self) -> None:
        """Check that MLflow, a terminal and fedgrid itself can take note and tags."""
        # A tag of the user with one of these names would hide fedgrid's own in MLflow, and filters would lie.
        taken = {*RESERVED_TAGS, *list_axis_keys()}
        for key, value in self.tags.items():
            if not TAG_KEY.fullmatch(key):
                raise ConfigError(f"tag '{key}': expected letters, digits, _ and -, 60 at most")
            if key in taken:
                raise ConfigError(f"tag '{key}': fedgrid sets a tag of this name itself; choose another name")
            if not value.isprintable():
                raise ConfigError(f"tag '{key}': expected text on one line, without control characters")
        # A note is printed in terminals, where escape sequences could rewrite what stands above it.
        if escape_controls(self.note) != self.note:
            raise ConfigError("the note has control characters; expected plain text")
        length = len(self.note) + sum(len(key) + len(value) for key, value in self.tags.items())
        if length > MAX_LENGTH:
            raise ConfigError(f"note and tags have {length:,} characters; at most {MAX_LENGTH:,} together")


def read_annotations(folder: Path) -> Annotations:
    """Read the note and tags of the run in a folder; a damaged file counts as empty, with a warning.

    Raises:
        OtherVersion: Another version of fedgrid wrote the file.
        UnreadableFile: The disk does not give the file.
    """
    try:
        values = unseal_file(folder / FILE)
        return Annotations(values["note"], values["tags"])
    except FileNotFoundError:
        return Annotations()
    except DamagedFile as error:
        warn(f"{error}; note and tags of its run are left out, and `fedgrid show RUN --note` writes new ones")
        return Annotations()
