"""Bad inputs, by mistake or by malice: files, and the commands that are given them."""

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

ONE_RUN = ("run", "--in-process", "training.rounds=1")
MINE = ("run", "--in-process", "--dataset", "npz:mine.npz")
IMAGES = ("run", "--in-process", "--dataset", "folder:images")
FILE = ("run", "--in-process", "mine.yaml")
PLUGIN = ("run", "--in-process", "--seed", "1", "--plugin", "mine.py")
HUGE = "9" * 5000


@dataclass(frozen=True)
class BadInput:
    """Files to write into an empty folder, a command to give there, and what its message must name."""

    name: str
    arguments: tuple[str, ...]
    message: str
    write: Callable[[Path], None] = lambda folder: None


def yaml(name: str, text: str | bytes, message: str) -> BadInput:
    """Build a grid's file with this content."""
    data = text if isinstance(text, bytes) else text.encode()
    return BadInput(name, FILE, message, lambda folder: _write(folder / "mine.yaml", data))


def npz(name: str, message: str, **changes: bytes | None) -> BadInput:
    """Build an npz file with changed members: bytes, or None to leave a member out."""
    return BadInput(name, MINE, message, lambda folder: write_npz(folder / "mine.npz", changes))


def images(name: str, message: str, write: Callable[[Path], None]) -> BadInput:
    """Build an image folder of two classes; `write` changes something in it."""

    def build(folder: Path) -> None:
        write_images(folder / "images")
        write(folder / "images")

    return BadInput(name, IMAGES, message, build)


def raw(name: str, data: bytes, message: str) -> BadInput:
    """Build an npz file of these bytes."""
    return BadInput(name, MINE, message, lambda folder: _write(folder / "mine.npz", data))


def plugin(name: str, data: bytes, message: str) -> BadInput:
    """Build a plugin with this content."""
    return BadInput(name, PLUGIN, message, lambda folder: _write(folder / "mine.py", data))


def cluster(name: str, text: str, message: str) -> BadInput:
    """Build a cluster's file with this content."""
    arguments = ("submit", "quickstart", "--cluster", "c.yaml")
    return BadInput(name, arguments, message, lambda folder: _write(folder / "c.yaml", text.encode()))


def options(name: str, *arguments: str, message: str) -> BadInput:
    """Build a command line without files."""
    return BadInput(name, arguments, message)


def header(shape: str, dtype: str = "|u1") -> bytes:
    """Build the first bytes of an array's file that claims this shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def array(values: np.ndarray) -> bytes:
    """Build an array's file."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def write_npz(path: Path, changes: Mapping[str, bytes | None]) -> None:
    """Write a small valid npz file, but for the changed members; their names are given in full."""
    sizes = (("train", 40), ("test", 10))
    members: dict[str, bytes | None] = {
        f"{part}_images.npy": array(np.zeros((size, 8, 8), np.uint8)) for part, size in sizes
    }
    members |= {f"{part}_labels.npy": array(np.arange(size) % 3) for part, size in sizes}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in {**members, **changes}.items():
            if data is not None:
                file.writestr(name, data)


def write_images(folder: Path) -> None:
    """Write a small valid image folder."""
    for part in ("train", "test"):
        for label in ("ape", "bee", "cat"):
            (folder / part / label).mkdir(parents=True)
            Image.new("L", (8, 8)).save(folder / part / label / "0.png")


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _image(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: _write(folder / "train" / "ape" / name, data)


def _png(width: int, height: int) -> bytes:
    """Build the header of an image of a claimed size."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", size)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


def _encode_image(kind: str) -> bytes:
    file = io.BytesIO()
    mode = "RGB" if kind == "EPS" else "P" if kind == "BLP" else "L"
    Image.new(mode, (8, 8)).save(file, kind)
    return file.getvalue()


def _huge_images(folder: Path) -> None:
    for number in range(200):
        _image(f"{number}.png", _png(13_000, 13_000))(folder)


def _make_archive(folder: Path) -> None:
    for name in ("experiments", "temperature_experiments", "datasets"):
        (folder / "archive" / name).mkdir(parents=True)


# Nine levels of ten aliases each are 10^9 entries in a file of half a kilobyte ("billion laughs").
ALIAS_BOMB = "".join(
    f"l{level}: &l{level} [{', '.join([f'*l{level - 1}' if level else 'x'] * 10)}]\n" for level in range(9)
)
MERGE_BOMB = "l0: &l0 {a: 1}\n" + "".join(
    f"l{level}: &l{level} {{<<: [{', '.join([f'*l{level - 1}'] * 10)}]}}\n" for level in range(1, 9)
)
# Deeper than Python's recursion limit: a recursive parser or printer fails.
DEEP = "[" * 2000 + "]" * 2000
DEEP_KEYS = "\n".join(" " * depth + "a:" for depth in range(1200))

BAD_INPUTS = (
    BadInput("images of nobody", ("analyse", "mine", "explain", "on=member"), "input should be 'members'"),
    BadInput("nothing to explain", ("analyse", "mine", "explain"), "no grid in"),
    yaml("nested lists", f"clients: {DEEP}", "too deeply"),
    yaml("nested keys", DEEP_KEYS, "too deeply"),
    yaml("nested mappings", "clients: " + "{a: " * 2000 + "1" + "}" * 2000, "too deeply"),
    yaml("nested list as the whole file", DEEP, "too deeply"),
    yaml("aliases of aliases", ALIAS_BOMB, "100000"),
    yaml("merges of merges", MERGE_BOMB, "100000"),
    yaml("list that contains itself", "clients: &a [*a]", "contain themselves"),
    yaml("mapping that contains itself", "training: &a {rounds: *a}", "contain themselves"),
    yaml("two megabytes", b"# " + b"x" * (2 << 20), "larger than 1 MiB"),
    yaml("zero bytes", b"\0" * 100, "not YAML"),
    yaml("binary", bytes(range(256)), "not YAML"),
    yaml("empty", b"", "mine.yaml"),
    yaml("a list", "- clients", "expected keys"),
    yaml("half a surrogate", '"\\ud800": 3', "mine.yaml"),
    yaml("a number of 5,000 digits", f"clients: {HUGE}", "mine.yaml"),
    yaml("a key of 1,000 characters", f"{'x' * 1000}: 3", "unknown key"),
    yaml("a date that does not exist", "clients: 2020-99-99", "mine.yaml"),
    yaml("an infinite number", "training: {learning_rate: .inf}", "training.learning_rate"),
    yaml("a key that is a list", "? [a, b]\n: 3", "mine.yaml"),
    yaml("a key that is a mapping", "? {a: b}\n: 3", "mine.yaml"),
    yaml("a python object", "clients: !!python/object/new:os.system [ls]", "not YAML"),
    yaml("an unknown tag", "clients: !mine 3", "not YAML"),
    yaml("two documents", "clients: 3\n---\nclients: 4", "not YAML"),
    yaml("an alias of nothing", "clients: *gone", "not YAML"),
    yaml("control characters", "\x1b[2J: 3", "not YAML"),
    yaml("escaped control characters", '"\\e[2Jclear": 3', "unknown key '\\x1b[2Jclear'"),
    yaml("a base that is gone", "base: gone.yaml", "gone.yaml"),
    yaml("a base that is itself", "base: mine.yaml", "name another"),
    yaml("a million seeds", "seeds: 0..1000000", "seeds"),
    yaml("plugins that are no list", "plugins: 3", "plugins = 3"),
    yaml("overrides that are no list", "overrides: 3", "overrides = 3"),
    yaml("a filter that is no mapping", "filter: 3", "filter = 3"),
    BadInput("grid that is a pipe", FILE, "not a file", lambda folder: os.mkfifo(folder / "mine.yaml")),
    BadInput("grid that is a folder", FILE, "not a file", lambda folder: (folder / "mine.yaml").mkdir()),
    BadInput(
        "grid that is a device",
        ("run", "zero.yaml"),
        "not a file",
        lambda folder: (folder / "zero.yaml").symlink_to("/dev/zero"),
    ),
    npz("npz that claims terabytes", "damaged", **{"train_images.npy": header("(1000000, 10000, 10000)")}),
    npz(
        "npz that claims terabytes of labels", "damaged", **{"train_labels.npy": header("(10000000000000,)")}
    ),
    npz(
        "npz that claims less than nothing",
        "damaged",
        **{"train_images.npy": header("(-1, 8, 8)") + b"0" * 64},
    ),
    npz(
        "npz that claims more than there is",
        "damaged",
        **{"train_images.npy": header("(41, 8, 8)") + b"0" * 64},
    ),
    npz("npz with a deep header", "damaged", **{"train_images.npy": header("(" * 3000 + ")" * 3000)}),
    npz("npz with a header that is code", "damaged", **{"train_images.npy": header("__import__('os')")}),
    npz(
        "npz member without .npy",
        "damaged",
        **{"train_images.npy": None, "train_images": array(np.zeros((40, 8, 8), np.uint8))},
    ),
    npz("npz member that is no array", "damaged", **{"train_images.npy": b"hello"}),
    npz("npz member that is empty", "damaged", **{"train_images.npy": b""}),
    npz("npz of objects", "Python objects", **{"train_labels.npy": array(np.array([None] * 40))}),
    npz("npz of texts", "train_labels", **{"train_labels.npy": array(np.array(["a"] * 40))}),
    npz("npz of floats", "save them as uint8", **{"train_images.npy": array(np.zeros((40, 8, 8)))}),
    npz("npz of records", "train_images", **{"train_images.npy": array(np.zeros(40, "u1,u2"))}),
    npz("npz of a single number", "train_images", **{"train_images.npy": array(np.array(3, np.uint8))}),
    npz(
        "npz with a label that is no class", "label 7000", **{"train_labels.npy": array(np.arange(40) * 7000)}
    ),
    npz("npz with a negative label", "label -1", **{"train_labels.npy": array(np.arange(40) - 1)}),
    npz("npz without test images", "no 'test_images'", **{"test_images.npy": None}),
    raw("npz that is empty", b"", "not a complete npz file"),
    raw("npz that is text", b"hello", "expected what numpy.savez writes"),
    raw("npz that is an npy file", array(np.zeros(3)), "one array (npy)"),
    raw("npz that is a pickle", b"\x80\x04N.", "a pickle"),
    raw("npz that is an empty zip file", b"PK\x05\x06" + bytes(18), "no 'train_images'"),
    raw("npz that is half a zip file", b"PK\x03\x04" + bytes(40), "not a complete npz file"),
    BadInput("npz that is a pipe", MINE, "not a file", lambda folder: os.mkfifo(folder / "mine.npz")),
    BadInput("npz that is a folder", MINE, "not a file", lambda folder: (folder / "mine.npz").mkdir()),
    BadInput(
        "npz that is a device",
        MINE,
        "not a file",
        lambda folder: (folder / "mine.npz").symlink_to("/dev/zero"),
    ),
    images("pipe among images", "not a file", lambda folder: os.mkfifo(folder / "train" / "ape" / "0")),
    images(
        "device among images",
        "not a file",
        lambda folder: (folder / "train" / "ape" / "0").symlink_to("/dev/zero"),
    ),
    images(
        "link to nothing among images",
        "0.jpg",
        lambda folder: (folder / "train" / "ape" / "0.jpg").symlink_to("gone"),
    ),
    images("200 images of 13,000 x 13,000", "13000x13000", _huge_images),
    images("image of 2 billion x 2 billion", "damaged", _image("0.png", _png(2**31 - 1, 2**31 - 1))),
    images("image of no width", "0.png", _image("0.png", _png(0, 8))),
    images("image cut after its header", "damaged", _image("0.png", _png(8, 8)[:60])),
    images("image of too little data", "damaged", _image("0.png", _png(8, 8))),
    images("BLP image", "known: PNG", _image("0.blp", _encode_image("BLP"))),
    images("DDS image", "known: PNG", _image("0.dds", b"DDS " + bytes(124))),
    images("EPS image", "known: PNG", _image("0.eps", _encode_image("EPS"))),
    images("EPS image under another name", "known: PNG", _image("0.png", _encode_image("EPS"))),
    images("ICO image", "known: PNG", _image("0.ico", b"\0\0\1\0" + bytes(60))),
    images("text among images", "known: PNG", _image("0.txt", b"hello")),
    images("empty image", "known: PNG", _image("0.png", b"")),
    images(
        "image of 16 bits",
        "mode I;16",
        lambda folder: Image.fromarray(np.zeros((8, 8), np.uint16)).save(folder / "train" / "ape" / "0.png"),
    ),
    images("class without images", "bee", lambda folder: (folder / "train" / "bee" / "0.png").unlink()),
    BadInput("folder that is a file", IMAGES, "no folder", lambda folder: _write(folder / "images", b"")),
    plugin("plugin that is no Python", b"def (", "mine.py"),
    plugin("plugin of deep brackets", b"x = " + b"(" * 3000 + b")" * 3000, "mine.py"),
    plugin("plugin of zero bytes", b"\0", "mine.py"),
    plugin("plugin in no encoding", b"\xff\xfe", "mine.py"),
    plugin("plugin that ends the program", b"raise SystemExit(0)", "mine.py"),
    plugin("plugin that recurses", b"def f(): f()\nf()", "mine.py"),
    BadInput(
        "plugin that is a pipe",
        PLUGIN,
        "not a file",
        lambda folder: os.mkfifo(folder / "mine.py"),
    ),
    cluster("cluster of deep YAML", DEEP, "too deeply"),
    cluster("cluster of aliases", ALIAS_BOMB, "100000"),
    cluster("cluster without provider", "cluster_name: x", "provider"),
    BadInput(
        "cluster that is a pipe",
        ("submit", "quickstart", "--cluster", "c.yaml"),
        "not a file",
        lambda folder: os.mkfifo(folder / "c.yaml"),
    ),
    options("seed of 5,000 digits", "run", "--seed", HUGE, message="--seed"),
    options("seeds of 5,000 digits", "run", "quickstart", "--seeds", HUGE, message="--seeds"),
    options("seeds up to 5,000 digits", "run", "quickstart", "--seeds", f"0..{HUGE}", message="--seeds"),
    options("clients of 5,000 digits", "run", "--clients", HUGE, message="--clients"),
    options("rounds of 5,000 digits", *ONE_RUN, f"training.rounds={HUGE}", message="training.rounds"),
    options(
        "clients per actor of 5,000 digits", "run", "--clients-per-actor", HUGE, message="--clients-per-actor"
    ),
    options(
        "cache limit of 5,000 digits", "run", "quickstart", "--cache-limit", HUGE, message="--cache-limit"
    ),
    options("deep override", *ONE_RUN, f"clients={DEEP}", message="too deeply"),
    options("storage with a long name", *ONE_RUN, "--storage", "x" * 5000, message="--storage"),
    options(
        "storage with a secret", *ONE_RUN, "--storage", "nowhere://me:hidden@x", message="nowhere://***@x"
    ),
    options(
        "storage of an unknown host",
        *ONE_RUN,
        "--storage",
        "file://elsewhere/x",
        message="file://elsewhere/x",
    ),
    options("data set with a long name", "run", "--dataset", "x" * 5000, message="unknown dataset"),
    options("data set with escapes", "run", "--dataset", "\x1b[2J", message="unknown dataset '\\x1b[2J'"),
    options("data set in a long path", "run", "--dataset", f"npz:{'x' * 5000}", message="name another path"),
    options("grid with a long name", "run", "x" * 5000, message="unknown preset"),
    options("archive that is not there", "import", "gone", "--name", "mine", message="gone"),
    BadInput(
        "archive without runs", ("import", "archive", "--name", "mine"), "no run in them", _make_archive
    ),
)
