"""Each file and each folder of a storage, one after another, is a link to the same content outside.

python -m tests.chaos.links                            # every kind of file and folder, a quarter of an hour
python -m tests.chaos.links --only grids --verbose     # places whose path has this word, with what was said

What lies behind the link is whole and right, so that only the link is a reason to refuse it. No command may
read it (its time of access tells), write to it or delete it. All commands are given: those that look at a
storage, and those that work on it.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.chaos.storages import look, looking, make_whole, undrawn, working


def places(root: Path) -> Iterator[Path]:
    """Yield one file or folder of each kind, relative to the storage."""
    seen = set()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        kind = re.sub(r"^digits-[^/]*?(failing)?-s\d-[^/]*", r"run \1", str(name))
        kind = re.sub(r"(figures|tables)/.*\.", r"\1/any.", kind)
        kind = re.sub(r"[0-9a-f]{8,}|\d+", "#", kind)
        if kind not in seen and not path.is_symlink():
            seen.add(kind)
            yield name


def try_place(
    made: Path, name: Path, asked: Sequence[tuple[object, ...]], say: Callable[[str], None]
) -> list[str]:
    """Return what was wrong with commands on a copy of a storage, one place of which is a link."""
    say(f"{name}")
    with tempfile.TemporaryDirectory(prefix="fedgrid-links-") as scratch:
        root, outside = Path(scratch) / "runs", Path(scratch) / "outside"
        shutil.copytree(made, root, symlinks=True)
        outside.mkdir()
        shutil.move(root / name, outside / name.name)
        (root / name).symlink_to(outside / name.name)
        return look(root, outside, asked, say)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    say = print if given.verbose else (lambda _: None)
    count = wrong = 0
    with tempfile.TemporaryDirectory(prefix="fedgrid-links-") as folder, undrawn():
        made = make_whole(Path(folder))
        asked = [*looking(made), *working(made)]
        for name in places(made):
            if given.only in str(name):
                count += 1
                for fault in try_place(made, name, asked, say):
                    wrong += 1
                    print(f"{name}\n    {fault}", flush=True)
    print(f"{count} places, {wrong} faults")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
