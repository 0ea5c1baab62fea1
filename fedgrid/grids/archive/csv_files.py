"""Strict reading of CSV files: anything unexpected is an error that names the file and the line.

Shapes: N rows, R rounds, K clients.
"""

import csv
from collections.abc import Sequence
from io import StringIO
from math import inf
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.errors import DataError
from fedgrid.regular_files import read_file

MOST_DIGITS = 18
"""Most digits of a whole number, which then fits into 64 bits."""
MOST_SHOWN = 60
"""Most characters of a cell in a message."""

Line: TypeAlias = tuple[int, list[str]]
"""Number, from 1, and cells."""


def build_line_error(path: Path, line: int, got: str, expected: str) -> DataError:
    """Build the error about a line of a file.

    Args:
        path: The file.
        line: Number of the line, from 1.
        got: What the line has.
        expected: What it should have.
    """
    return DataError(f"{path}:{line}: {got}; expected {expected}")


def read_lines(path: Path) -> list[Line]:
    """Read the non-empty lines of a file, at least one.

    Raises:
        DataError: The file cannot be read, is empty, or is not CSV.
    """
    try:
        # `strict` refuses stray quotes, which the module would otherwise take as text.
        reader = csv.reader(StringIO(read_file(path).decode(), newline=""), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not lines:
        raise build_line_error(path, 1, "an empty file", "comma-separated values")
    return lines


def parse_number(path: Path, line: int, name: str, text: str) -> float:
    """Parse the number in a cell; `nan` is allowed.

    Args:
        path: The file, for messages.
        line: Number of the line, for messages.
        name: Name of the column, for messages.
        text: The cell.

    Raises:
        DataError: The cell is not a number.
    """
    try:
        return float(text)
    except ValueError as error:
        raise build_line_error(path, line, f"{name} '{text[:MOST_SHOWN]}'", "a number") from error


def parse_count(path: Path, line: int, name: str, text: str) -> int:
    """Parse the whole number, 0 or more, in a cell.

    Args:
        path: The file, for messages.
        line: Number of the line, for messages.
        name: Name of the column, for messages.
        text: The cell.

    Raises:
        DataError: The cell is not such a number.
    """
    # `int` would also take signs, spaces and underscores.
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise build_line_error(path, line, f"{name} '{text[:MOST_SHOWN]}'", "a whole number of at least 0")
    return int(text)


class CsvTable:
    """A CSV file with titles in its first line, and N rows."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        """Read a file with at least `columns`.

        Raises:
            DataError: It cannot be read, lacks a column, or has a row with more or fewer cells than titles.
        """
        self.path = path
        (first, titles), *self._rows = read_lines(path)
        for column in columns:
            if titles.count(column) != 1:
                got = f"{titles.count(column)} columns '{column}'"
                raise build_line_error(path, first, got, f"one each of {', '.join(columns)}")
        for line, cells in self._rows:
            if len(cells) != len(titles):
                got = f"{len(cells)} values"
                raise build_line_error(path, line, got, f"{len(titles)}, as many as there are titles")
        self._at = {column: titles.index(column) for column in columns}

    def parse_column(
        self, column: str, *, least: float = -inf, most: float = inf, may_lack: bool = True
    ) -> NDArray[np.float64]:
        """Parse a column of numbers, shape (N,).

        Args:
            column: Its title.
            least: Least value that is allowed, by default any.
            most: Greatest value that is allowed, by default any.
            may_lack: Whether NaN is allowed, the default.

        Raises:
            DataError: A cell is not a number, or outside `least` to `most`.
        """
        at = self._at[column]
        values = np.array([parse_number(self.path, line, column, cells[at]) for line, cells in self._rows])
        # Comparisons with NaN are False, so that NaN is wrong unless it may lack.
        wrong = ~((values >= least) & (values <= most)) & ~(np.isnan(values) & may_lack)
        for index in np.flatnonzero(wrong)[:1]:
            line, cells = self._rows[index]
            expected = f"a number from {least:g} to {most:g}"
            raise build_line_error(self.path, line, f"{column} '{cells[at][:MOST_SHOWN]}'", expected)
        return values

    def list_cells(self, column: str) -> list[str]:
        """List the cells of a column of names."""
        return [cells[self._at[column]] for _, cells in self._rows]

    def check_counts(self, column: str) -> None:
        """Check that a column counts the rows from 0 on.

        Raises:
            DataError: It does not.
        """
        for index, (line, cells) in enumerate(self._rows):
            text = cells[self._at[column]]
            if parse_count(self.path, line, column, text) != index:
                raise build_line_error(self.path, line, f"{column} {text}", f"{index}: each from 0 on")

    def find_rows_RK(
        self, round_column: str, client_column: str, num_rounds: int, num_clients: int
    ) -> NDArray[np.int64]:
        """Find the row of each round and client, shape (R, K); rounds and clients count from 0.

        Args:
            round_column: Title of the column of rounds.
            client_column: Title of the column of clients.
            num_rounds: R.
            num_clients: K.

        Raises:
            DataError: There is not exactly one row for each round and client.
        """
        # -1 marks a pair without a row.
        found_RK = np.full((num_rounds, num_clients), -1)
        for index, (line, cells) in enumerate(self._rows):
            texts = [cells[self._at[column]] for column in (round_column, client_column)]
            at, client = (parse_count(self.path, line, "number", text) for text in texts)
            if at >= num_rounds or client >= num_clients or found_RK[at, client] >= 0:
                got = f"{round_column} {at}, {client_column} {client}"
                raise build_line_error(
                    self.path, line, got, "one row for each round and client of the mapping"
                )
            found_RK[at, client] = index
        if (found_RK < 0).any():
            got = f"the end after {len(self._rows)} rows"
            raise build_line_error(self.path, self._rows[-1][0] if self._rows else 1, got, f"{found_RK.size}")
        return found_RK
