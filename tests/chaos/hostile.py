"""Storages as a stranger may have written them, and every command that looks at one.

python -m tests.chaos.hostile --seeds 200          # 200 storages, each with some hostile files
python -m tests.chaos.hostile --seeds 2000 --asked 6   # more of them, with a few commands each
python -m tests.chaos.hostile --seed 17 --verbose  # one of them, with what the commands said

A storage of small finished runs is copied, and a seed draws what a stranger changes in it: files that are
links, pipes, devices or folders, folders that are links, files of other bytes, copies, names with control
characters or odd numbers, lines of text, values of JSON files, columns of tables and tensors (with checksums
that are right), a MLflow store of other addresses, with views or triggers. Each command must end with 0, 1
or 2 in a few lines without a traceback, control characters or what lies outside, within a minute; outside
the storage nothing may change.
"""

import argparse
import json
import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save_file

from fedgrid.engine.runtime.storage.format import CHECKSUM, VERSION, seal
from fedgrid.engine.runtime.storage.sealed_arrays import ABOUT, about_arrays, encode
from fedgrid.grids.trackers.mlflow.own_store import MAGIC
from tests.chaos.storages import SECRET, look, looking, make_whole, undrawn, working

PAGE = 4096
"""Bytes of a page of MLflow's store."""
NAMES = (
    "\x1b[31mred",
    "a\nb",
    "[bold]x",
    "=HYPERLINK(1)",
    os.fsdecode(b"\xff\xfe"),
    "..x",
    "$\\frac{$",
    "x" * 200,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "../../outside/secret.json",
    "../../../outside/secret",
    "/etc/passwd",
    "\x1b[31m",
    "a\nb",
    "[/b]",
    "=HYPERLINK(1)",
    "$\\frac{$",
    "x" * 5000,
    [],
    {},
    [[[]]],
    {"../x": 1},
)

LINES = (
    b"\x1b[31m",
    b"[" * 2000,
    b"\xff\xfe",
    b"{a: [b",
    b"algorithm: [/b]",
    b"- &a [*a]",
    b"\0",
    b"x: 9e999",
)


DELETING = [
    ("cache", "mine", "--drop"),
    ("delete", "mine", "--superseded", "--yes"),
    ("delete", "mine", "--yes"),
]


class Stranger:
    """Changes a storage at random."""

    def __init__(self, root: Path, outside: Path, rng: random.Random) -> None:
        self.root, self.outside = root, outside
        self.rng = rng
        self.done: list[str] = []
        """What was changed, in words."""

    def change(self, times: int) -> None:
        """Change the storage that often."""
        for _ in range(times):
            kind = self.rng.choices(
                (
                    self.replace_file,
                    self.link_folder,
                    self.add_name,
                    self.copy_file,
                    self.change_json,
                    self.change_table,
                    self.change_tensors,
                    self.change_text,
                    self.change_store,
                ),
                (3, 1, 1, 4, 8, 3, 2, 2, 2),
            )[0]
            kind()

    def _any(self, pattern: str = "*") -> Path:
        """Return a file of the storage; those of a kind that there is more of are not more likely.

        MLflow's copies of the records and a report's figures are rarely chosen: nothing reads them.
        """
        paths = sorted(path for path in self.root.rglob(pattern) if path.is_file() and not path.is_symlink())
        own = [path for path in paths if not {"mlartifacts", "report"} & set(path.parts)]
        paths = own if own and self.rng.random() < 0.95 else paths
        by_name: dict[str, list[Path]] = {}
        for path in paths:
            by_name.setdefault(re.sub(r"\d+|[0-9a-f]{8,}", "", path.name), []).append(path)
        return self.rng.choice(self.rng.choice(list(by_name.values())))

    def _note(self, path: Path, what: str) -> None:
        self.done.append(ascii(f"{path.relative_to(self.root)}: {what}")[1:-1])

    def replace_file(self) -> None:
        """Put something else in a file's place."""
        path = self._any()
        kind = self.rng.choice(
            ("link", "endless", "pipe", "folder", "empty", "bytes", "half", "dangling", "huge")
        )
        self._note(path, kind)
        content = path.read_bytes()
        path.unlink()
        match kind:
            case "link":
                path.symlink_to(self.outside / "secret.json")
            case "dangling":
                path.symlink_to(self.outside / "not-there-yet")
            case "endless":
                path.symlink_to("/dev/zero")
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "empty":
                path.write_bytes(b"")
            case "bytes":
                path.write_bytes(self.rng.randbytes(1000))
            case "huge":
                with path.open("wb") as file:
                    file.truncate(1 << 40)
            case _:
                path.write_bytes(content[: len(content) // 2])

    def link_folder(self) -> None:
        """Move a folder outside, and leave a link to it; or link to another one."""
        folders = sorted(path for path in self.root.rglob("*") if path.is_dir() and not path.is_symlink())
        folder = self.rng.choice(folders)
        target = self.outside / f"moved-{len(self.done)}"
        if self.rng.random() < 0.5:
            shutil.move(folder, target)
        else:
            shutil.rmtree(folder)
            target = self.outside
        self._note(folder, f"a link to {target.name}")
        folder.symlink_to(target)

    def add_name(self) -> None:
        """Add a file, a folder or a link of a hostile name."""
        folders = [
            self.root,
            self.root / "grids",
            *sorted(self.root.glob("grids/*")),
            *sorted(self.root.glob("digits*")),
        ]
        folder = self.rng.choice(
            [path for path in folders if path.is_dir() and not path.is_symlink()] or [self.root]
        )
        path = folder / self.rng.choice(NAMES)
        self._note(path, "added")
        if path.exists() or path.is_symlink():
            return
        kind = self.rng.randrange(3)
        if kind == 0:
            path.mkdir()
            for name in ("runs.jsonl", "config.json", "progress.json"):
                (path / name).write_text('{"format": 1}\n')
        elif kind == 1:
            path.write_text("hostile")
        else:
            path.symlink_to(self.outside)

    def copy_file(self) -> None:
        """Copy a file or a folder to a name beside it, as people and their programs do, or a stranger."""
        path = self._any()
        path = path.parent if self.rng.random() < 0.2 and path.parent != self.root else path
        stem, suffix = path.stem, path.suffix
        odd = self.rng.choice(("", "0", "-1", "9" * 30, "\u0663", "\xb2", "1e3", "x"))
        name = self.rng.choice(
            (f"{stem} (copy){suffix}", f"{path.name}~", f"{path.name}.bak", re.sub(r"\d+", odd, path.name))
        )
        target = path.with_name(self.rng.choice((name, self._any().name))[:200])
        self._note(path, f"copied to {target.name}")
        if target.exists() or target.is_symlink():
            return
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        elif path.is_file():
            shutil.copyfile(path, target)

    def change_tensors(self) -> None:
        """Change a tensor of a state, of an encoder or of the round cache, and the checksums."""
        path = self._any("*.safetensors")
        try:
            data = path.read_bytes()
            arrays = load(data)
            with safe_open(path, "numpy") as file:
                metadata = file.metadata() or {}
        except (OSError, SafetensorError):
            return
        name = self.rng.choice(sorted(arrays) or [""])
        kind = self.rng.choice(("drop", "type", "shape", "value", "rename", "nothing"))
        self._note(path, f"{kind} {name}")
        array = arrays.pop(name, np.zeros(0))
        changed = {
            "type": lambda: array.astype(np.float16),
            "shape": lambda: array.reshape(-1)[:-1],
            "value": lambda: np.full_like(array, self.rng.choice((-1, 1, 100))),
        }
        if kind in changed:
            arrays[name] = changed[kind]()
        elif kind == "rename":
            arrays["model/x"] = array
        elif kind == "nothing":
            arrays = {}
        if ABOUT in metadata:
            about = about_arrays(data)
            del about[CHECKSUM]
            sealed_under = path.parent.name if path.name == "encoder.safetensors" else path.stem
            path.write_bytes(encode(arrays, about, sealed_under))
        else:
            save_file(arrays, path, metadata=metadata)
            self._vouch(path)

    def change_text(self) -> None:
        """Put odd words into a file that is read as text: a preset, a log, a list, a plugin."""
        path = self._any()
        if path.suffix in (".parquet", ".safetensors", ".db"):
            return
        lines = path.read_bytes().splitlines()
        place = self.rng.randrange(len(lines) + 1)
        words = self.rng.choice(LINES)
        self._note(path, f"line {place} is {words[:20]!r}")
        lines.insert(place, words)
        path.write_bytes(b"\n".join(lines) + b"\n")
        self._vouch(path)

    def change_json(self) -> None:
        """Change a value of a JSON file, and its checksums."""
        path = self._any("*.json*")
        with path.open() as file:
            lines = file.read().splitlines() if path.suffix == ".jsonl" else [file.read()]
        place = self.rng.randrange(len(lines) or 1)
        try:
            values = json.loads(lines[place])
        except (ValueError, IndexError):
            return
        if not isinstance(values, dict):
            return
        is_sealed = values.pop(CHECKSUM, None) is not None
        where = self._change_value(values)
        self._note(path, where)
        if is_sealed:
            values.pop(VERSION, None)
            lines[place] = seal(values).rstrip("\n")
        else:
            lines[place] = json.dumps(values)
        if path.suffix == ".jsonl" and place:
            head = json.loads(lines[0])
            del head[CHECKSUM], head[VERSION]
            below = "".join(f"{line}\n" for line in lines[1:])
            lines[0] = seal({**head, "runs": sha256(below.encode()).hexdigest()}).rstrip("\n")
        path.write_text("\n".join(lines) + "\n")
        self._vouch(path)

    def _change_value(self, values: dict[str, Any]) -> str:
        """Change a value somewhere below; return where, and what it was changed to."""
        where, inner, key = "", values, ""
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            if not keys:
                break
            key = self.rng.choice(keys)
            where += f".{key}"
            below = inner[key]
            if not isinstance(below, dict | list) or not below or self.rng.random() < 0.2:
                break
            inner = below
        value = self.rng.choice(VALUES)
        kind = self.rng.randrange(6)
        if kind == 0 and isinstance(inner, dict) and key in inner:
            del inner[key]
            return f"{where} deleted"
        if kind == 1 and isinstance(inner, dict):
            inner[self.rng.choice(NAMES[:5])] = value
            return f"{where} has a neighbour {value!r:.40}"
        if isinstance(inner, dict) and key != "":
            inner[key] = value
        elif isinstance(inner, list) and inner:
            inner[key] = value  # type: ignore[call-overload]
        return f"{where} = {value!r:.40}"

    def change_table(self) -> None:
        """Change a table, and its checksums."""
        path = self._any("*.parquet")
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid):
            return
        metadata, place = table.schema.metadata, self.rng.randrange(max(1, table.num_columns))
        if not table.num_columns:
            return
        name = table.column_names[place]
        kind = self.rng.choice(("drop", "type", "no rows", "twice", "null", "value", "more"))
        match kind:
            case "drop":
                table = table.drop_columns([name])
            case "type":
                table = table.set_column(place, name, pa.array(["\x1b[31m[/b]"] * table.num_rows))
            case "no rows":
                table = table.slice(0, 0)
            case "twice":
                table = pa.concat_tables([table, table])
            case "null":
                table = table.set_column(
                    place, name, pa.nulls(table.num_rows, table.schema.field(place).type)
                )
            case "value":
                table = self._with_value(table, place)
            case _:
                table = table.append_column("=x[/b]\x1b[31m", pa.array([1.0] * table.num_rows))
        self._note(path, f"{kind} {name}")
        pq.write_table(table.replace_schema_metadata(metadata), path)
        self._vouch(path)

    def _with_value(self, table: pa.Table, place: int) -> pa.Table:
        field = table.schema.field(place)
        for value in self.rng.sample([-(2**31), 2**31 - 1, float("nan"), 1e308, -1, "=x", True, []], 8):
            try:
                values = pa.array([value] * table.num_rows, field.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
                continue
            return table.set_column(place, field, values)
        return table

    def _vouch(self, path: Path) -> None:
        """Set the checksums of a file anew that other files have of it."""
        data = path.read_bytes()
        digest = sha256(data).hexdigest()
        for other in sorted(path.parent.iterdir()):
            if not other.is_file() or other.is_symlink() or other == path:
                continue
            if other.suffix == ".sha256":
                text = other.read_text(errors="replace")
                line = rf"^[0-9a-f]{{64}}(?=  {re.escape(path.name)}$)"
                if text != (changed := re.sub(line, digest, text, flags=re.M)):
                    other.write_text(changed)
                    self._vouch(other)
            elif other.name == "done.json" or path.name.startswith(other.stem):
                end = path.name if other.name == "done.json" else path.name.removeprefix(other.stem)
                try:
                    mark = json.loads(other.read_text())
                    is_mark = end in mark["files"]
                    mark["files"][end] = (
                        {"bytes": len(data), "sha256": digest} if other.name == "done.json" else digest
                    )
                    del mark[CHECKSUM], mark[VERSION]
                except (ValueError, KeyError, TypeError):
                    continue
                if is_mark:
                    other.write_text(seal(mark, indent=2))

    def change_store(self) -> None:
        """Change the MLflow store."""
        path, place = self.root / "mlflow.db", f"file://{self.outside}"
        if not path.is_file() or path.is_symlink():
            return
        kind = self.rng.choice(
            (
                "UPDATE runs SET artifact_uri = :place",
                "UPDATE experiments SET artifact_location = :place",
                "UPDATE runs SET run_uuid = '../../outside' WHERE rowid = 1",
                "UPDATE tags SET value = '\x1b[31m[/b]'",
                "UPDATE params SET value = NULL",
                "UPDATE experiments SET name = '[/b]' || experiment_id WHERE name <> 'Default'",
                "DROP TABLE metrics",
                "view",
                "trigger",
                "journal link",
                "wal link",
                "super-journal",
                "artifact link",
                "artifacts link",
            )
        )
        self._note(path, kind)
        with closing(sqlite3.connect(path)) as database, database:
            try:
                if kind == "view":
                    database.execute("ALTER TABLE runs RENAME TO own_runs")
                    database.execute("CREATE VIEW runs AS SELECT * FROM own_runs")
                elif kind == "trigger":
                    database.execute("CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM metrics; END")
                elif kind.isupper() or " = " in kind or "DROP" in kind:
                    database.execute(kind, {"place": place} if ":place" in kind else {})
            except sqlite3.Error:
                return
        if kind in ("journal link", "wal link"):
            side = path.with_name(f"mlflow.db-{kind.partition(' ')[0]}")
            if not side.is_symlink():
                side.symlink_to(self.outside / "secret.json")
        elif kind == "super-journal":
            path.with_name("mlflow.db-journal").write_bytes(super_journal(self.outside / "secret.json", path))
        elif kind == "artifact link":
            folders = [
                each for each in sorted((self.root / "mlartifacts").glob("*")) if not each.is_symlink()
            ]
            if folders:
                folder = self.rng.choice(folders)
                shutil.rmtree(folder)
                folder.symlink_to(self.outside)
        elif kind == "artifacts link":
            files = [
                each
                for each in (self.root / "mlartifacts").rglob("*")
                if each.is_file() and not each.is_symlink()
            ]
            if files:
                victim = self.rng.choice(sorted(files))
                victim.unlink()
                victim.symlink_to(self.outside / "secret.json")


def super_journal(victim: Path, database: Path) -> bytes:
    """Return a journal of SQLite that names a file which SQLite deletes once it has rolled back."""
    magic, name = MAGIC, str(victim).encode()
    pages = database.stat().st_size // PAGE
    header = magic + b"".join(number.to_bytes(4, "big") for number in (0, 0, pages, 512, PAGE))
    lock_page = (0x40000000 // PAGE + 1).to_bytes(4, "big")
    tail = len(name).to_bytes(4, "big") + (sum(name) & 0xFFFFFFFF).to_bytes(4, "big")
    return header.ljust(512, b"\0") + lock_page + name + tail + magic


def try_changes(
    made: Path, folder: Path, rng: random.Random, asked: int | None, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """Return what a stranger changed in a copy of a storage, and what went wrong with looking at it."""
    root, outside = folder / "runs", folder / "outside"
    shutil.copytree(made, root, symlinks=True)
    outside.mkdir()
    for name in ("secret.json", "id_rsa", "config.json"):
        (outside / name).write_text(SECRET)
    (outside / "tables").mkdir()
    (outside / "tables" / "id_rsa").write_text(SECRET)
    every = [*looking(made), *(DELETING if asked else working(made))]
    stranger = Stranger(root, outside, rng)
    stranger.change(rng.randint(1, 4))
    say("; ".join(stranger.done))
    chosen = (
        every if asked is None else [every[index] for index in sorted(rng.sample(range(len(every)), asked))]
    )
    faults = look(root, outside, chosen, say)
    kept = (
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 30
    )
    if any(SECRET.encode() in path.read_bytes() for path in kept):
        faults.append("the storage has a copy of what lies outside")
    return stranger.done, faults


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--asked", type=int, help="commands a storage; all, in their order, by default")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    seeds = [given.seed] if given.seed is not None else range(given.first, given.first + given.seeds)
    say = print if given.verbose else (lambda _: None)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="fedgrid-hostile-") as folder, undrawn():
        made = make_whole(Path(folder))
        for seed in seeds:
            place = Path(folder) / str(seed)
            place.mkdir()
            say(f"seed {seed}")
            changed, faults = try_changes(made, place, random.Random(seed), given.asked, say)
            for fault in faults:
                wrong += 1
                print(f"seed {seed} ({'; '.join(changed)})\n    {fault}", flush=True)
            shutil.rmtree(place)
    print(f"{len(seeds)} storages, {wrong} faults")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
