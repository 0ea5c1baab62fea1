"""One column of a data set as examples: images, lists of numbers, or tokens of texts.

Tokens are a text's characters (`chars`), its bytes in UTF-8 (`bytes`), or lists of whole numbers as they are.
Token 0 fills texts up to one length, in front, so that a recurrent model ends with the text; of a longer text
the end is taken. Of characters token 1 is one that no text of the pool has.

Shapes: R rows, N rows that are read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.files import check_is_file, check_memory, decode_image, stack_images
from fedgrid.engine.federation.data.images import Images
from fedgrid.engine.federation.data.names import Size
from fedgrid.engine.federation.data.partition import Positions
from fedgrid.engine.federation.data.precision import (
    OVERFLOW_HELP,
    check_tokens,
    convert_to_single,
    find_offsets,
    find_overflow,
)
from fedgrid.engine.federation.data.tables.columns import (
    IMAGES,
    LISTS,
    NUMBERS,
    TEXTS,
    Bools,
    Lists,
    Rows,
    Table,
    missing_value_error,
    note_on_offsets,
)
from fedgrid.engine.federation.data.tables.options import (
    BYTES,
    INPUT,
    LENGTH,
    PAD,
    TOKENISERS,
    TOKENS,
    TableOptions,
)
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.inputs import DTYPES, Inputs, image_inputs

FILL, UNKNOWN = 0, 1
"""Tokens that stand for no character: the filling, and one that no text of the pool has."""


def encode_column(table: Table, options: TableOptions, left: Sequence[str], is_test_R: Bools) -> Rows | None:
    """Encode the single column to learn from; None if all columns have numbers or texts, a value each.

    Args:
        table: the table.
        options: the user's options.
        left: names of the columns that have no role and are not dropped.
        is_test_R: marks the rows of the server's test set.

    Raises:
        ConfigError: several can be meant, or none.
        DataError: a row cannot be read.
    """
    name = _choose_column(table, options, left)
    kind = NUMBERS if name is None else table.columns[name].kind
    for option, value, kinds in (
        ("#SIZE", options.size, (IMAGES,)),
        (TOKENS, options.tokens, (TEXTS,)),
        (LENGTH, options.length, (TEXTS, LISTS)),
        (PAD, options.pad, (LISTS,)),
    ):
        if value not in ("", None) and kind not in kinds:
            raise ConfigError(
                f"{options.source}: {option} is for {' and '.join(kinds)}, and {name or 'a row'} has {kind}; "
                "leave it out",
                ("dataset",),
            )
    if name is None:
        return None
    column = table.columns[name]
    if column.image is not None:
        rows = _encode_images(options, name, column.image, options.size, len(is_test_R))
    elif column.lists is not None:
        rows = _encode_lists(options, name, column.lists(), is_test_R)
    else:
        rows = _encode_texts(options, name, column.texts(), is_test_R)
    if len(left) > 1:
        unused = ", ".join(other for other in left if other != name)
        return replace(rows, notes=(*rows.notes, f"{options.source}: nothing is learned from {unused}"))
    return rows


def _choose_column(table: Table, options: TableOptions, left: Sequence[str]) -> str | None:
    """Choose the column to learn from: images before lists before texts; None if all are plain values."""
    source = options.source
    kinds = {name: table.columns[name].kind for name in left}
    for kind in (IMAGES, LISTS, *([TEXTS] if options.tokens else [])):
        candidates = [name for name in left if kinds[name] == kind]
        if len(candidates) > 1:
            raise ConfigError(
                f"{source} has several columns to learn from: {', '.join(candidates)}; name one, "
                f"#{INPUT}={candidates[0]}",
                ("dataset",),
            )
        if candidates:
            return candidates[0]
    if list(kinds.values()) == [TEXTS]:
        ways = " or ".join(f"#{TOKENS}={way}" for way in TOKENISERS)
        raise ConfigError(f"{source}: column {left[0]} has texts; make them tokens, {ways}", ("dataset",))
    return None


def _encode_images(
    options: TableOptions,
    name: str,
    image: Callable[[int], bytes | Path | None],
    size: Size | None,
    num_rows: int,
) -> Rows:
    """Encode a column of images; the first one decides on size and kind."""

    def decode_row(row: int) -> tuple[str, Images]:
        """Decode the image of a row, with what messages call it."""
        content = image(row)
        if content is None:
            raise missing_value_error(options, name, row)
        called = f"{options.source}: the image of row {options.number_row(row)}"
        if isinstance(content, Path):
            check_is_file(content, "an image")
        return called, decode_image(called, BytesIO(content) if isinstance(content, bytes) else content, size)

    def read_rows(rows_N: Positions) -> Images:
        """Read the images of some rows."""
        return stack_images(first, map(decode_row, rows_N.tolist()), len(rows_N))

    _, first = decode_row(0)
    check_memory(options.source, first.nbytes * num_rows)
    return Rows(image_inputs(*first.shape), read_rows)


def _encode_lists(options: TableOptions, name: str, lists: Lists, is_test_R: Bools) -> Rows:
    """Encode a column of lists: tokens if they are whole numbers, else numbers of one shape."""
    lengths_R, values = lists.lengths[0], lists.values
    if not lengths_R.all():
        raise missing_value_error(options, name, int(np.argmin(lengths_R)))
    if values.dtype.kind in "iu" and len(lists.lengths) == 1:
        return _encode_tokens(options, name, lists)
    if any(len(np.unique(lengths)) > 1 for lengths in lists.lengths):
        raise DataError(
            f"{options.source}: the lists of column {name} have {lengths_R.min()} to {lengths_R.max()} "
            "numbers; make all as long"
        )
    shape = [len(lengths_R), *(int(lengths[0]) for lengths in lists.lengths)]
    if values.dtype.kind != "f" or len(shape) > 4:
        raise DataError(
            f"{options.source}: column {name} has lists of {values.dtype}, shape {tuple(shape)}; expected "
            "floats, shape (rows, columns) or (rows, channels, length), or lists of whole numbers, the tokens"
        )
    given = values.reshape(shape)
    if (gaps := np.isnan(given)).any():
        raise missing_value_error(options, name, int(np.argmax(gaps.reshape(len(given), -1).any(axis=1))))
    offsets = find_offsets([given[~is_test_R]])
    rows = convert_to_single(given, offsets)
    if (place := find_overflow(rows)) is not None:
        row, column = place
        raise DataError(
            f"{options.source}: row {options.number_row(row)} has {given[row, column].flat[0]:g} in the "
            f"lists of column {name}; {OVERFLOW_HELP}"
        )
    centred = [f"number {at} of {name} ({offsets[at]:g})" for at in np.flatnonzero(offsets)]
    return Rows(Inputs("numbers", rows.shape[1:]), rows.__getitem__, note_on_offsets(options, centred))


def _encode_tokens(options: TableOptions, name: str, lists: Lists) -> Rows:
    """Encode lists of whole numbers as tokens."""
    check_tokens(f"{options.source}: column {name}", lists.values)
    lengths_R, tokens = lists.lengths[0], lists.values.astype(np.int64)
    length = options.length or int(lengths_R.max())
    if (lengths_R < length).any() and options.pad is None:
        raise ConfigError(
            f"{options.source}: the lists of column {name} have {lengths_R.min()} to {lengths_R.max()} "
            f"tokens; name the token that fills them up to {length}, #{PAD}=0, or a shorter {LENGTH}",
            ("dataset",),
        )
    # All lists lie in one array, one after the other; a Python list of arrays would take several times the
    # memory.
    stops_R = np.cumsum(lengths_R)
    vocabulary = max(int(tokens.max()), options.pad or 0) + 1

    def get_tokens(row: int) -> NDArray[np.int64]:
        """Get the tokens of a row."""
        return tokens[stops_R[row] - lengths_R[row] : stops_R[row]]

    inputs = Inputs("tokens", (length,), vocabulary, options.pad)
    return _pad_tokens(options, inputs, lengths_R, get_tokens)


def _encode_texts(options: TableOptions, name: str, texts: Sequence[str], is_test_R: Bools) -> Rows:
    """Encode texts as tokens, by bytes or by characters."""
    if "" in texts:
        raise missing_value_error(options, name, texts.index(""))
    if options.tokens == BYTES:
        # Bytes are tokens 1 to 256, as 0 is the filling.
        encoded = [text.encode() for text in texts]
        lengths_R, vocabulary = np.array([len(text) for text in encoded]), 257

        def get_tokens(row: int) -> NDArray[np.int64]:
            return np.frombuffer(encoded[row], np.uint8).astype(np.int64) + 1
    else:
        pool_texts = (text for text, is_test in zip(texts, is_test_R, strict=True) if not is_test)
        # Characters of the pool alone, sorted: tokens depend neither on the order of rows nor on the test
        # set.
        token_by_character = {
            character: token for token, character in enumerate(sorted(set().union(*pool_texts)), 2)
        }
        lengths_R, vocabulary = np.array([len(text) for text in texts]), len(token_by_character) + 2

        def get_tokens(row: int) -> NDArray[np.int64]:
            return np.array(
                [token_by_character.get(character, UNKNOWN) for character in texts[row]], np.int64
            )

    length = options.length or int(lengths_R.max())
    return _pad_tokens(options, Inputs("tokens", (length,), vocabulary, FILL), lengths_R, get_tokens)


def _pad_tokens(
    options: TableOptions,
    inputs: Inputs,
    lengths_R: NDArray[np.int64],
    get_tokens: Callable[[int], NDArray[np.int64]],
) -> Rows:
    """Cut and pad the tokens of each row to one length."""
    [length] = inputs.shape
    check_memory(options.source, len(lengths_R) * length * DTYPES["tokens"].itemsize)

    def read_rows(rows_N: Positions) -> Images:
        """Read the tokens of some rows, shape (N, length)."""
        padded = np.full((len(rows_N), length), inputs.padding or 0, np.int64)
        for position, row in enumerate(rows_N.tolist()):
            tokens = get_tokens(row)[-length:]
            padded[position, length - len(tokens) :] = tokens
        return padded

    longer = int(np.count_nonzero(lengths_R > length))
    note = f"{options.source}: of {longer} of {len(lengths_R)} texts the last {length} tokens are read"
    return Rows(inputs, read_rows, [note] if longer else [])
