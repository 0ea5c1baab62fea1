"""The site: adds the generated pages, and leads commands and sources to them.

The site has no other files of the repository: links to them become plain text.
"""

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

# mkdocs runs this file by its path; the pages are made by modules of the repository.
sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.reference import contract, pages  # noqa: E402
from fedgrid.grids.cli.actions.reference import key_sections  # noqa: E402

COMMAND = re.compile(r"(?<!\[)`fedgrid ([^`\n]+)`")
"""A command that may show what a page of the site has too."""
SHOWN = {
    "data": "data.md",
    "list algorithms": "algorithms/index.md",
    "list columns": "records.md",
    "list columns computed": "scores.md",
    "list commands": "command-line.md",
    "list keys": "configuration.md",
    "list models": "data.md#models",
    "list presets": "presets.md",
}
"""Words of a command -> the page below reference/ with what it prints."""
SOURCES = {
    "tests/promises.yaml": "tested-promises.md",
    "fedgrid/__init__.py": "api.md",
    "fedgrid/tracking/report/contents.py": "report.md",
    **{
        f"fedgrid/{module}": f"contract.md#{heading.lower().replace(' ', '-')}"
        for heading, module in contract.SECTIONS.items()
    },
}
"""A file of the repository -> the page below reference/ that is made from it."""


def on_config(config: Any) -> Any:
    """Put the pages of the algorithms on their shelf, which mkdocs.yml leaves empty."""
    [shelf] = [entry["Reference"] for entry in config.nav if "Reference" in entry]
    [algorithms] = [
        entry["Algorithms"] for entry in shelf if isinstance(entry, dict) and "Algorithms" in entry
    ]
    algorithms[:] = [path for path in pages.pages() if path.startswith("reference/algorithms/")]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for path, text in pages.pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Lead commands and sources to the pages that are made from them; unlink other files."""
    folder = PurePosixPath(page.file.src_uri).parent

    def plain(link: re.Match[str]) -> str:
        target = normpath(str(folder / link[2]))
        source = SOURCES.get(target.removeprefix("../"))
        if source:
            return f"[{link[1]}]({relpath('reference', folder)}/{source})"
        if target == "../README.md":
            return f"[{link[1]}]({relpath(pages.README, folder)}{link[3] or ''})"
        leaves = target.startswith("..") or target.endswith(".py") or target.startswith("examples")
        return f"`{link[1].strip('`')}`" if leaves else link[0]

    def linked(command: re.Match[str]) -> str:
        target = page_of_command(command[1])
        return f"[{command[0]}]({relpath('reference', folder)}/{target})" if target else command[0]

    return COMMAND.sub(linked, pages.LINK.sub(plain, markdown))


def page_of_command(words: str) -> str:
    """Find the page below reference/ that has what a command prints; empty if there is none."""
    first, _, last = words.rpartition(" ")
    if last == "--help":
        return f"command-line.md#fedgrid-{first.replace(' ', '-')}"
    if first == "list algorithms" and f"reference/algorithms/{last}.md" in pages.pages():
        return f"algorithms/{last}.md"
    if first == "list keys" and (section := last.partition(".")[0]) in key_sections():
        return f"configuration.md#{section}"
    if first == "list columns" and last in ("rounds", "clients", "timings"):
        return f"records.md#{last}parquet"
    return SHOWN.get(words, "")
