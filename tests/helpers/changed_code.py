"""A copy of fedgrid's code with something changed in it, for launches by another version."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def changed_code(folder: Path, file: str, changes: Mapping[str, str]) -> Path:
    """Copy the code to `folder` and set constants of a file, by name; return what PYTHONPATH must say."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fedgrid", folder / "fedgrid", ignore=ignored)
    path = folder / "fedgrid" / file
    text = path.read_text()
    for name, value in changes.items():
        text, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.M)
        assert found == 1, f"{file} has {found} lines {name} = ..."
    path.write_text(text)
    return folder
