"""Words that a name or a sentence does not need: each has a plainer one, which the failure names."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("fedgrid", "benchmarks", "docs")

IN_NAMES = {
    "anew": "again",
    "asked": "requested, options, settings",
    "beside": "compared, next_to, reference",
    "doomed": "to_delete, DeletionPlan",
    "found": "results, matches, labels",
    "had": "cached, stored",
    "kept": "stored, cached, remaining",
    "known": "registered, cached, names",
    "met": "seen_together, paired",
    "news": "event, RunEvent",
    "said": "message, text",
    "teller": "TrackerSession, Writer",
    "told": "given, reported, group_count",
    "tried": "finished, attempted",
    "wanted": "requested, selected",
}
"""Last word of a name of a class, function, parameter, variable or module -> better ones."""
RIDDLES = {
    r"^(how|look|met|said|some|whole|why)$": "a noun that says what it holds, a verb with its object",
    r"_(how|look|why)$": "style, options; status; reason",
    r"(^of_|_of$|^of$)": "from_path, read_x, find_x, x_by_y: what it does",
}
"""Names of classes and functions -> what a name is."""
FIRST_WORDS = {
    "As": "a whole sentence that stands alone",
    "By": "a noun: 'Runs by id'",
    "Of": "a noun: 'Seeds of the run'",
    "That": "a noun",
    "Those": "a noun: 'Runs that ...'",
    "Who": "a noun: 'Clients that ...'",
    "Whoever": "a noun: 'Clients that ...'",
}
"""First word of the docstring of a module, class or function -> better ones."""
IN_PROSE = {
    "anew": "again",
    "asked": "selected, requested, chosen",
    "told": "given, reported, shown",
    "whoever": "a client that, a process that",
}
"""Words of docstrings, comments, messages and pages, outside of code -> better ones."""
NAMES_THAT_STAY = {
    "kept": "tests/kept holds what the first release wrote",
    "told": "a column of the arena's outcomes, and a field of a plugin's AlgorithmEntry",
}
# Code, links, the argument `told`, and stored texts: an algorithm's title, a part of the records, headings.
CODE = re.compile(
    r"```.*?```|``[^`]+``|`[^`\n]+`|<!--.*?-->|\]\([^)]*\)"
    r"|[Ww]ard[- ]told( k)?|\btold: |\"not asked\"|\"asked, last \d+\"",
    re.DOTALL,
)


def python_files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def names_of_file(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of what a module defines: classes, functions, parameters, variables, fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def documented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and docstring of the module, its classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield node.body[0].lineno, text


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of docstrings, of other strings of some words, and of comments."""
    text = path.read_text()
    # Parts of an f-string are tokens of their own from Python 3.12 on.
    strings = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_sentence = token.type in strings and " " in token.string
        if token.type == tokenize.COMMENT or is_sentence:
            yield token.start[0], token.string


def findings_in_names() -> Iterator[str]:
    for path in python_files():
        where = path.relative_to(ROOT)
        tree = ast.parse(path.read_text())
        defined = [(1, path.stem), *names_of_file(tree)]
        for line, name in defined:
            word = name.strip("_").lower().rpartition("_")[2]
            if word in IN_NAMES and name not in NAMES_THAT_STAY:
                yield f"{where}:{line} {name}: rather {IN_NAMES[word]}"
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                for riddle, better in RIDDLES.items():
                    if node.name not in NAMES_THAT_STAY and re.search(riddle, node.name.strip("_").lower()):
                        yield f"{where}:{node.lineno} {node.name}: rather {better}"


def test_names_are_nouns_and_verbs():
    findings = list(findings_in_names())
    assert not findings, "\n".join(findings)


def test_docstrings_start_with_a_sentence():
    findings = [
        f"{path.relative_to(ROOT)}:{line} {text.splitlines()[0]}: rather {FIRST_WORDS[word]}"
        for path in python_files()
        for line, text in documented(ast.parse(path.read_text()))
        if (word := text.split()[0]) in FIRST_WORDS
    ]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("word", IN_PROSE)
def test_prose_uses_plain_words(word: str):
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = [
        *((path, 1, path.read_text()) for path in pages),
        *((path, line, text) for path in python_files() for line, text in prose(path)),
    ]
    pattern = re.compile(rf"(?<![\w-]){word}(?![\w-])", re.IGNORECASE)
    findings = []
    for path, first, text in texts:
        plain = CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
        for match in () if path.name == "CHANGELOG.md" else pattern.finditer(plain):
            line = first + plain.count("\n", 0, match.start())
            around = plain[max(0, match.start() - 30) : match.end() + 30]
            findings.append(f"{path.relative_to(ROOT)}:{line} {around!r}: rather {IN_PROSE[word]}")
    assert not findings, "\n".join(findings)
