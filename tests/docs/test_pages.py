"""The documents: links lead somewhere, every page is on a shelf, every command line can be parsed."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.exceptions import TyperException

from docs.reference import pages
from docs.reference.shelves import navigation, shelf_paths
from docs.site_hooks import SHOWN, SOURCES, page_of_command
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.grids.cli.main import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = {path: path.read_text() for path in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])}
FENCED = re.compile(r"```(\w*)[^\n]*\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = typer.main.get_command(app)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


def lost_links(page: Path, texts: Mapping[Path, str]) -> list[str]:
    """Return the links of a page that lead to no file, no page of `texts`, or no heading."""
    lost = []
    for link in LINK.findall(without_code(texts[page])):
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / file).resolve() if file else page
        is_there = target.exists() or target in texts
        if not is_there or (anchor and anchor not in anchors(texts[target])):
            lost.append(link)
    return lost


def test_links_lead_to_files_and_headings() -> None:
    """A clone has no site: what is written leads to what is written."""
    assert {page: lost for page in WRITTEN if (lost := lost_links(page, WRITTEN))} == {}


def test_links_of_the_sites_pages_lead_to_files_and_headings() -> None:
    texts = {**{DOCS / path: text for path, text in pages.pages().items()}, **WRITTEN}
    made = texts.keys() - WRITTEN.keys()
    assert len(made) >= len(ALGORITHMS)
    assert {page: lost for page in made if (lost := lost_links(page, texts))} == {}


def test_every_page_is_on_one_shelf() -> None:
    shelved = [path for entry in navigation() for path in shelf_paths(entry)]
    generated = {path for path in pages.pages() if "/algorithms/" not in path}
    written = {str(path.relative_to(DOCS)) for path in WRITTEN if path.is_relative_to(DOCS)}
    assert sorted(shelved) == sorted(written | generated)


def test_first_page_of_the_site_lists_every_page_with_its_first_sentence() -> None:
    home = pages.pages()["index.md"]
    paths = [path for entry in navigation() for path in shelf_paths(entry)][1:]
    assert re.findall(r"^- \[.+?\]\((\S+)\)", home, re.MULTILINE) == paths
    assert re.search(r"^- \[Glossary\]", home, re.MULTILINE)


def test_commands_and_sources_lead_to_pages_of_the_site() -> None:
    assert [source for source in SOURCES if not (ROOT / source).exists()] == []
    words = ("list algorithms sattler", "list keys training.rounds", "list columns rounds", "run --help")
    for target in (*SHOWN.values(), *SOURCES.values(), *map(page_of_command, words)):
        path, _, anchor = target.partition("#")
        text = pages.pages()[f"reference/{path}"]
        assert not anchor or anchor in anchors(text), target
    assert page_of_command("run quickstart") == ""


def commands(text: str) -> list[str]:
    """Return the lines of fenced and indented blocks that call fedgrid, joined where they go on."""
    blocks = [body for kind, body in FENCED.findall(text) if kind in ("", "console", "bash", "sh")]
    blocks += re.findall(r"(?:^ {4}[^\n]*\n)+", FENCED.sub("", text), re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [
        line.removeprefix("$ ") for line in map(str.strip, lines) if re.match(r"(\$ )?fedgrid [a-z-]", line)
    ]


COMMANDS = {str(page.relative_to(ROOT)): lines for page, text in WRITTEN.items() if (lines := commands(text))}
"""Page -> its lines that call fedgrid."""


def parse(words: list[str]) -> None:
    """Parse a command line; nothing is run.

    Raises:
        TyperException: fedgrid has no such command, option or number of arguments.
    """
    command, context = COMMAND, COMMAND.make_context("fedgrid", ["--help"], resilient_parsing=True)
    while hasattr(command, "commands"):
        name, *words = words
        if any(name in option.opts for option in command.params):
            return
        command = command.commands.get(name)
        if command is None:
            raise TyperException(f"no command {name}")
        if not hasattr(command, "commands"):
            command.make_context(name, words, parent=context)


@pytest.mark.parametrize("page", COMMANDS)
def test_commands_of_a_page_are_those_that_fedgrid_has(page: str) -> None:
    for line in COMMANDS[page]:
        print(line)  # Shown with a failure.
        for part in re.split(" && ", line):
            words = shlex.split(re.split(r" [|>] |\s#", part)[0])
            parse([word for word in words[1:] if word not in ("...", "&")])


def test_unknown_option_is_found() -> None:
    with pytest.raises(TyperException, match="--no-such-option"):
        parse(["run", "quickstart", "--no-such-option"])
