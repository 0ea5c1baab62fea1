"""Files of data: checks before they are read, and the decoding of images."""

import mmap
import os
import struct
import warnings
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipInfo

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from fedgrid.engine.federation.errors import DataError

if TYPE_CHECKING:
    from fedgrid.engine.federation.data.images import Images
    from fedgrid.engine.federation.data.names import Size

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""Image formats that are read. PIL reads more of them, some by starting other programs and some with decoders
that nobody maintains."""
LOCAL_HEADER = 30
"""Bytes before a name in a zip file; the last four are the lengths of the name and of the field after it."""
ZIP = "a zip archive, as Excel's xlsx, numpy's npz and torch's files are"
KNOWN_FORMATS: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "Parquet", "take parquet:PATH"),
    (b"ARROW1", "Arrow or Feather", "save it as Parquet"),
    (b"\x1f\x8b", "compressed by gzip", "unpack it: gunzip"),
    (b"BZh", "compressed by bzip2", "unpack it: bunzip2"),
    (b"\xfd7zXZ", "compressed by xz", "unpack it: unxz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it: unzstd"),
    (b"PK", ZIP, "save it as csv or Parquet; numpy's is npz:PATH"),
    (
        b"\x80",
        "a pickle, which can run any code when it is read",
        "save it with to_csv, to_parquet or numpy.savez",
    ),
    (b"\x93NUMPY", "one array (npy)", "save examples and labels with numpy.savez"),
    (b"\x89HDF", "HDF5", "save it with to_csv, to_parquet or numpy.savez"),
    (b"MATLAB 5", "Matlab's", "save it with numpy.savez"),
    (b"SQLite format 3", "an SQLite database", "save a table with to_csv or to_parquet"),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself: git lfs pull"),
    (b"<!", "a web page", "download the file itself"),
    (b"<html", "a web page", "download the file itself"),
    (b"<?xml", "XML", "save it as csv"),
    (b"[{", "JSON", "save it with to_csv or to_parquet"),
    (b"{\\rtf", "a text with formats (rtf)", "save it as plain text"),
    (b'{"', "JSON", "save it with to_csv or to_parquet"),
)
"""First bytes of files of known formats, what messages call the format, and what to do about such a file."""
NUM_HEAD_BYTES = 512
"""Bytes at the beginning of a file by which its format is guessed."""
MOST_PIXELS = 4096 * 4096
"""Most pixels of an image: a small file can decompress to any size."""
GREY_MODES = ("1", "L", "LA")
"""PIL's modes that are read as one grey channel."""
COLOUR_MODES = ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""PIL's modes that are read as RGB. Modes of 16 or 32 bits are refused: a scale to 8 bits is the user's
choice."""


def check_memory(source: Path | str, num_bytes: int) -> None:
    """Check that this machine can hold data of `num_bytes`, before any of them are read.

    Args:
        source: what messages call the data.
        num_bytes: size of the arrays.

    Raises:
        DataError: they take more than its memory.
    """
    # All of the machine's memory, not what is free at this moment: that changes while the data are read.
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if num_bytes > memory:
        raise DataError(
            f"{source}: its data take {num_bytes / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f} GB "
            "of memory; take fewer examples or smaller ones"
        )


def map_member(archive: Path, entry: ZipInfo, start: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Map a member of a zip archive that is not compressed into memory, so that it is read when it is used.

    Args:
        archive: the zip file.
        entry: its member.
        start: first byte of the array within the member.
        shape: shape of the array, of bytes.
    """
    # The local header's field after the name may differ in length from the one in the archive's directory, so
    # its own lengths are read.
    with archive.open("rb") as file:
        file.seek(entry.header_offset + LOCAL_HEADER - 4)
        name, extra = struct.unpack("<HH", file.read(4))
    begin = entry.header_offset + LOCAL_HEADER + name + extra
    return np.memmap(archive, np.uint8, "r", begin + start, shape)


def release_memory(array: NDArray[Any]) -> None:
    """Release the memory of an array that is a view of a file; it is read again when it is used."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(base, "madvise"):  # Windows has no such call.
        base.madvise(mmap.MADV_DONTNEED)


def check_is_file(path: Path, expected: str) -> None:
    """Check that an existing path is a file: reading a pipe or a device may never end.

    Raises:
        DataError: it is something else.
    """
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a file; expected {expected} there")


def check_format(path: Path, expected: str) -> None:
    """Check by its first bytes that a file is not of another known format than expected.

    Args:
        path: the file; one that does not exist has no format.
        expected: `csv`, `Parquet` or `npz`.

    Raises:
        DataError: it is of another format, which the message names.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(NUM_HEAD_BYTES)
    # UTF-16 without a mark of byte order: of Latin text every second byte is zero, all on the same side.
    is_wide = abs(head[1::2].count(0) - head[::2].count(0)) > len(head) // 4
    if expected == "csv" and (head.startswith((b"\xff\xfe", b"\xfe\xff")) or is_wide):
        called, instead = (
            "UTF-16 text",
            "save it as UTF-8 (in Excel: CSV UTF-8; in pandas: encoding='utf-8')",
        )
    else:
        matches = ((called, instead) for start, called, instead in KNOWN_FORMATS if head.startswith(start))
        called, instead = next(matches, ("", ""))
    if called and called != expected and not (expected == "npz" and called == ZIP):
        raise DataError(
            f"{path} is not a {expected} file, but {called}; {instead}".replace("PATH", f"{path}")
        )


def damaged_file_error(file: Path, reason: str) -> DataError:
    """Build the error for a damaged file."""
    return DataError(f"{file} is damaged or incomplete: {reason}; delete it, and copy or download it again")


def stack_images(first: "Images", images: "Iterable[tuple[Path | str, Images]]", count: int) -> "Images":
    """Stack images into one array; grey images are repeated to three channels if the first one is colour.

    Args:
        first: the first image, whose size and kind (grey or RGB) all must have.
        images: (what messages call it, pixels) of every image, the first included.
        count: number of images.

    Raises:
        DataError: an image has another size or kind.
    """
    # Filled one by one: a list of all images and the array made of it would take the memory twice.
    stack = np.empty((count, *first.shape), np.uint8)
    for position, (called, pixels) in enumerate(images):
        if len(first) == 3 and len(pixels) == 1:
            pixels = np.repeat(pixels, 3, axis=0)
        if pixels.shape != first.shape:
            raise DataError(
                f"{called} is {_describe_image(pixels)}, the first image is {_describe_image(first)}; make "
                "all images "
                "one size and one kind; #64 (or #80x60) behind the data set scales them as they are read"
            )
        stack[position] = pixels
    return stack


def decode_image(source: Path | str, file: Path | IO[bytes], size: "Size | None") -> "Images":
    """Decode one image to uint8, shape (1 or 3, height, width).

    Args:
        source: what messages call the image.
        file: its path, or its open file.
        size: width and height that it is scaled to; None: its own.

    Raises:
        DataError: it cannot be read.
    """
    try:
        pixels = _decode_pixels(source, file, size)
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise DataError(
            f"{source} is not an image of a known format; convert it or remove it; known: "
            f"{', '.join(FORMATS)}"
        ) from error
    except Exception as error:
        # A damaged file makes PIL's decoders raise almost anything.
        raise DataError(f"{source} is damaged or incomplete: {error}; replace it or remove it") from error
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _decode_pixels(source: Path | str, file: Path | IO[bytes], size: "Size | None") -> "Images":
    """Decode an image to uint8, shape (height, width) if it is grey, else (height, width, 3)."""
    with warnings.catch_warnings():
        # PIL warns of some large images, of which `MOST_PIXELS` is the check, and of odd metadata.
        warnings.simplefilter("ignore")
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if prod(image.size) > MOST_PIXELS:
                raise DataError(f"{source} has {width}x{height} pixels; scale it to at most 4096x4096")
            # Size and mode stand in the header: both are checked before a pixel is decompressed.
            if image.mode not in GREY_MODES + COLOUR_MODES:
                raise DataError(f"{source} has pixels of mode {image.mode}; save it with 8 bits a channel")
            upright = ImageOps.exif_transpose(image)
            mode = "L" if image.mode in GREY_MODES else "RGB"
            plain = (_draw_on_white(upright) if upright.has_transparency_data else upright).convert(mode)
            if size not in (None, plain.size):
                plain = plain.resize(size, Image.Resampling.BILINEAR)
            return np.asarray(plain, np.uint8)


def _draw_on_white(image: Image.Image) -> Image.Image:
    """Draw an image with transparent pixels on white paper."""
    drawn = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn)


def _describe_image(pixels: "Images") -> str:
    """Describe kind and size of an image for a message."""
    channels, height, width = pixels.shape
    return f"{'grey' if channels == 1 else 'colour'} {width}x{height}"
