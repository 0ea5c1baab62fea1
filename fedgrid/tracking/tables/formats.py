"""Tables as Markdown, LaTeX and csv; the same table gives the same bytes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from fedgrid.redaction import escape_markdown, format_csv
from fedgrid.tracking.tables.table import ABSENT, NONE, Cell, Row, Table

LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "<": "$<$",
    ">": "$>$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "|": "$|$",
    "–": "--",
}


def to_markdown(table: Table) -> str:
    """Format a GitHub Markdown table below its caption, sections as bold rows, notes as a list below."""
    heading = [
        escape_markdown(table.corner),
        *(
            _add_marks(escape_markdown(column.heading), column.notes, _raise_in_markdown)
            for column in table.columns
        ),
    ]
    lines: list[Sequence[str]] = []
    for section, rows in _group_sections(table):
        if section:
            lines.append([f"**{escape_markdown(section)}**", *[""] * len(table.columns)])
        for row in rows:
            name = _add_marks(escape_markdown(row.name), row.notes, _raise_in_markdown)
            lines.append([name, *(_format_markdown_cell(cell) for cell in row.cells)])
    # A rule of Markdown has three dashes at least.
    widths = [max(3, *(len(line[index]) for line in [heading, *lines])) for index in range(len(heading))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    grid = "\n".join(
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |"
        for line in [heading, rule, *lines]
    )
    notes = "".join(
        f"- {_raise_in_markdown(key)} {escape_markdown(text)}\n" for key, text in table.notes.items()
    )
    return f"**{escape_markdown(table.title)}.** {escape_markdown(table.caption)}\n\n{grid}\n" + (
        f"\n{notes}" if notes else ""
    )


def to_latex(table: Table) -> str:
    """Format a `table` environment for a document that uses booktabs; its label is `tab:<name>`."""
    body: list[str] = []
    for section, rows in _group_sections(table):
        if section:
            title = rf"\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\textit{{{escape_latex(section)}}}}} \\"
            body += [*([r"\midrule"] if body else []), title]
        for row in rows:
            name = _add_marks(escape_latex(row.name), row.notes, _raise_in_latex)
            body.append(_join_latex_cells([name, *(_format_latex_cell(cell) for cell in row.cells)]))
    notes = [rf"\par {_raise_in_latex(key)}~{escape_latex(text)}" for key, text in table.notes.items()]
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}. {escape_latex(table.caption)}}}",
            rf"\label{{tab:{table.name}}}",
            r"\footnotesize",
            r"\setlength{\tabcolsep}{3pt}",
            rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            r"\toprule",
            *_format_latex_heading(table),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def to_csv(table: Table) -> str:
    """Format a csv file: the rows' sections (if any) and names, then each column's values in full digits.

    Column names are those of `Column.heading`. If any cell has them, a column is followed by its standard
    deviations over seeds (`... spread`), its numbers of runs (`... count`) and of seeds among them
    (`... seeds`), if more than one, its reference numbers (`... reference`) and p of tests (`... p`). Cells
    without a result, and dashes without a number, are empty.
    """
    has_sections = any(row.section for row in table.rows)
    parts = [
        part
        for index, column in enumerate(table.columns)
        for part in _list_csv_columns(column.heading, [row.cells[index] for row in table.rows])
    ]
    names = [[row.section, row.name] if has_sections else [row.name] for row in table.rows]
    corner = [table.part, table.corner] if has_sections else [table.corner]
    lines = ([*name, *(values[index] for _, values in parts)] for index, name in enumerate(names))
    return format_csv([[*corner, *(heading for heading, _ in parts)], *lines])


def _list_csv_columns(heading: str, cells: Sequence[Cell]) -> Iterator[tuple[str, list[str]]]:
    """Yield a column's values, and those further columns of which any cell has a number."""
    yield heading, [_format_csv_value(cell) for cell in cells]
    if any(cell.spread is not None for cell in cells):
        yield f"{heading} spread", [_format_full_digits(cell.spread) for cell in cells]
    if any(cell.count > 1 for cell in cells):
        yield f"{heading} count", [str(cell.count) if cell.count else "" for cell in cells]
    if any(cell.seeds > 1 for cell in cells):
        yield f"{heading} seeds", [str(cell.seeds) if cell.seeds else "" for cell in cells]
    if any(cell.reference is not None for cell in cells):
        yield f"{heading} reference", [_format_full_digits(cell.reference) for cell in cells]
    if any(cell.p is not None for cell in cells):
        yield f"{heading} p", [_format_full_digits(cell.p) for cell in cells]


def _format_csv_value(cell: Cell) -> str:
    """Format a cell's number in full digits; its text if it has none, empty for a dash."""
    if cell.value is not None:
        return _format_full_digits(cell.value)
    return "" if cell.text == ABSENT or cell.text.startswith(NONE) else cell.text


def _format_full_digits(value: float | None) -> str:
    """Format a number in all digits that tell it from others; empty for None."""
    return "" if value is None else repr(float(value))


def _group_sections(table: Table) -> Iterable[tuple[str, Iterator[Row]]]:
    """Group neighbouring rows of the same section."""
    return groupby(table.rows, key=lambda row: row.section)


def _add_marks(text: str, notes: Sequence[str], raised: Callable[[str], str]) -> str:
    """Add the keys of notes to a text, raised."""
    return text + (raised(", ".join(notes)) if notes else "")


def _format_markdown_cell(cell: Cell) -> str:
    """Format a cell in Markdown, bold and with its notes."""
    text = escape_markdown(cell.text)
    return _add_marks(f"**{text}**" if cell.bold else text, cell.notes, _raise_in_markdown)


def _raise_in_markdown(keys: str) -> str:
    """Format the keys of notes as a superscript in Markdown."""
    return f"<sup>{keys}</sup>"


def _format_latex_cell(cell: Cell) -> str:
    """Format a cell in LaTeX, bold and with its notes."""
    # In text LaTeX sets - as a hyphen: a minus before a number needs math mode.
    text = re.sub(r"(?<![^ ])-(?=\d)", "$-$", escape_latex(cell.text))
    return _add_marks(rf"\textbf{{{text}}}" if cell.bold else text, cell.notes, _raise_in_latex)


def _format_latex_heading(table: Table) -> Iterator[str]:
    """Yield the lines of the heading: groups of columns with rules below, then their names."""
    names = [_add_marks(escape_latex(column.name), column.notes, _raise_in_latex) for column in table.columns]
    corner = escape_latex(table.corner)
    if any(column.group for column in table.columns):
        # Neighbours only: columns of one group that are apart would need two spans of the same name.
        groups = [(name, len(list(columns))) for name, columns in groupby(table.columns, lambda c: c.group)]
        starts = [2 + sum(width for _, width in groups[:index]) for index in range(len(groups))]
        spans = [rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" for name, width in groups]
        rules = [
            rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
            for (name, width), start in zip(groups, starts, strict=True)
            if name
        ]
        yield _join_latex_cells(["", *spans])
        yield " ".join(rules)
    yield _join_latex_cells([corner, *names])


def _join_latex_cells(cells: Sequence[str]) -> str:
    """Join cells to a row of LaTeX."""
    # After the end of a row, LaTeX takes [ and * for its argument.
    guard = "{}" if cells[0].startswith(("[", "*")) else ""
    return guard + " & ".join(cells) + r" \\"


def _raise_in_latex(keys: str) -> str:
    """Format the keys of notes as a superscript in LaTeX."""
    return rf"\textsuperscript{{{escape_latex(keys)}}}"


def escape_latex(text: str) -> str:
    """Escape text for LaTeX, in one line."""
    return "".join(LATEX.get(char, char) for char in text.replace("\n", " "))
