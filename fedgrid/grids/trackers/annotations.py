"""A user's note and tags of a run, in `tags.json` in its folder: no part of its id, records or checksums."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from fedgrid.engine.federation.errors import ConfigError, unknown
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import warn
from fedgrid.grids.presets.axis_keys import axis_keys
from fedgrid.redaction import printable
from fedgrid.sealed_json import seal

FILE = "tags.json"
LENGTH = 4000
"""Characters of a note and of all tags together. MLflow takes 8000 of a note, which stands there above the
run's description."""
KEY = re.compile(r"\w[\w-]{0,59}")
"""Without dots, which the names of MLflow's tags and of further axes have."""
OWN = ("grid", "scenario", "model", "variant", "host", "commit", "versions", "source", "command", "trial")
"""Tags that fedgrid itself sets in MLflow, beside those of axes."""


@dataclass(frozen=True)
class Annotations:
    """What the user has written on a run."""

    note: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def changed(self, given: Sequence[str], note: str | None) -> Self:
        """Return them with other tags and, unless it is None, another note.

        Args:
            given: each KEY=VALUE sets a tag, KEY= removes it.
            note: empty: none.

        Raises:
            ConfigError: something of it is malformed, or too long, or there is no tag to remove.
        """
        tags = dict(self.tags)
        for text in given:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals:
                raise ConfigError(f"'{text}': expected KEY=VALUE, as in status=good, or KEY= to remove a tag")
            if value:
                tags[key] = value
            elif tags.pop(key, None) is None:
                raise unknown("tag", key, tags) if tags else ConfigError(f"'{text}': the run has no tags")
        annotations = type(self)(self.note if note is None else note.strip(), tags)
        annotations._check()
        return annotations

    def lines(self) -> list[str]:
        """Return the lines of a page that show them."""
        tags = ", ".join(f"{key}={value}" for key, value in self.tags.items())
        return [f"{name}: {text}" for name, text in (("Note", self.note), ("Tags", tags)) if text]

    def write(self, folder: Path, storage: Storage) -> None:
        """Replace those of the run in a folder of a storage.

        Raises:
            RunError: it cannot be written.
        """
        text = seal({"note": self.note, "tags": dict(self.tags)})
        with disk_errors(folder):
            storage.put({f"{folder.name}/{FILE}": text.encode()})

    def _check(self) -> None:
        """Refuse what MLflow, a terminal or fedgrid itself cannot take."""
        taken = {*OWN, *axis_keys()}
        for key, value in self.tags.items():
            if not KEY.fullmatch(key):
                raise ConfigError(f"tag '{key}': expected letters, digits, _ and -, 60 at most")
            if key in taken:
                raise ConfigError(f"tag '{key}': fedgrid sets a tag of this name itself; choose another name")
            if not value.isprintable():
                raise ConfigError(f"tag '{key}': expected text on one line, without control characters")
        if printable(self.note) != self.note:
            raise ConfigError("the note has control characters; expected plain text")
        length = len(self.note) + sum(len(key) + len(value) for key, value in self.tags.items())
        if length > LENGTH:
            raise ConfigError(f"note and tags have {length:,} characters; at most {LENGTH:,} together")


def annotations_of(folder: Path) -> Annotations:
    """Return the note and tags of the run in a folder; of a damaged file none, with a warning.

    Raises:
        OtherVersion: another fedgrid wrote the file.
        UnreadableFile: the disk does not give it.
    """
    try:
        values = unseal(folder / FILE)
        return Annotations(values["note"], values["tags"])
    except FileNotFoundError:
        return Annotations()
    except DamagedFile as error:
        warn(f"{error}; note and tags of its run are left out, and `fedgrid show RUN --note` writes new ones")
        return Annotations()
