"""The site: adds the generated pages, and makes plain text of links that leave docs/.

The site has no other files of the repository.
"""

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

# mkdocs runs this file by its path; the pages are made by modules of the repository.
sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.reference import pages  # noqa: E402

COMMAND = re.compile(r"(?<!\[)`fedgrid (?:algorithms ([\w-]+)|([\w-]+) --help)`")
"""A command that shows what a page of the site has too."""


def on_config(config: Any) -> Any:
    """Put the pages of the algorithms on their shelf, which mkdocs.yml leaves empty."""
    [shelf] = [entry["Reference"] for entry in config.nav if "Reference" in entry]
    [algorithms] = [
        entry["Algorithms"] for entry in shelf if isinstance(entry, dict) and "Algorithms" in entry
    ]
    algorithms[:] = [path for path in pages.pages() if path.startswith("reference/algorithms/")]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, those that are committed too, as the code has them now."""
    from mkdocs.structure.files import File

    for path, text in pages.pages().items():
        if path in pages.COMMITTED:
            files.remove(files.get_file_from_path(path))
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Return a page's text without links to files that the site lacks, with links to what commands show."""
    folder = PurePosixPath(page.file.src_uri).parent

    def plain(link: re.Match[str]) -> str:
        target = normpath(str(folder / link[2]))
        if target == "../README.md":
            return f"[{link[1]}]({relpath(pages.README, folder)}{link[3] or ''})"
        leaves = target.startswith("..") or target.endswith(".py") or target.startswith("examples/")
        return f"`{link[1].strip('`')}`" if leaves else link[0]

    def page_of(command: re.Match[str]) -> str:
        name = command[1]
        target = f"algorithms/{name}.md" if name else f"command-line.md#fedgrid-{command[2]}"
        is_there = target.startswith("command") or f"reference/{target}" in pages.pages()
        return f"[{command[0]}]({relpath('reference', folder)}/{target})" if is_there else command[0]

    return COMMAND.sub(page_of, pages.LINK.sub(plain, markdown))
