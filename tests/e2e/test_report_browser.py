"""The report in a browser: headless Chromium loads it in frames and inspects them."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedgrid.tracking.report.report_files import write_report_files
from tests.helpers.demo_page import make_demo_page

CHECKS = Path(__file__).with_name("report_checks.html")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr")
DARK = "--blink-settings=preferredColorScheme=0"
CONSOLE = re.compile(r":CONSOLE[:(]\d+\)?\] (.*)")
SECONDS = 120

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no browser to check the report with: none of {', '.join(BROWSERS)} is installed")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report_files(make_demo_page("mnist"), folder)
    return folder / "index.html"


def inspect(
    browser: str, report: Path, tmp_path: Path, frames: list[tuple[int, str | None]], *flags: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the findings in frames of (width, sandbox), and the lines of the browser's console."""
    # In a script, "</script>" would end it, wherever it stands.
    text = json.dumps(report.read_text(encoding="utf-8")).replace("</", "<\\/")
    page = CHECKS.read_text().replace('"@FRAMES@"', json.dumps(frames)).replace('"@REPORT@"', text)
    path = tmp_path / "checks.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [
            *(browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags),
            *("--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    body = re.search(r"<body[^>]*>(.*)</body>", done.stdout, re.DOTALL)
    assert body, done.stderr
    found = json.loads(html.unescape(body[1]))
    assert isinstance(found, list), found
    return found, CONSOLE.findall(done.stderr)


def test_report_fits_a_desktop_and_a_phone(browser, report, tmp_path):
    """The demo page has 2 + 2 tables: 2 x 13 headings of the wide ones, 2 x 3 of the small ones."""
    frames, console = inspect(browser, report, tmp_path, [(1280, None), (390, None)])
    assert [frame["innerWidth"] for frame in frames] == [1280, 390]
    for frame in frames:
        assert frame["scrollWidth"] <= frame["innerWidth"]
        # Of two alternatives the first is drawn.
        assert (frame["images"], frame["broken"]) == (4, [])
        assert (frame["tables"], frame["headings"], frame["buttons"]) == (4, 32, 32)
        assert frame["unsorted"] == []
        assert frame["requests"] == []
        assert frame["options"] == [[True, False]] * 2
        assert frame["switched"] == [False, True]
        assert (frame["large"], frame["closed"]) == (True, True)
        assert frame["signs"] == ['"▲"', '"▼"', '"◐"']
    assert console == []


def test_report_without_scripts_shows_every_option(browser, report, tmp_path):
    frames, console = inspect(browser, report, tmp_path, [(1280, "allow-same-origin")])
    assert all(line.startswith('"Blocked script execution') for line in console)
    assert console
    assert frames[0]["options"] == [[True, True]] * 2
    assert frames[0]["switches"] == [False] * 2
    assert frames[0]["scrollWidth"] <= 1280
    assert frames[0]["broken"] == []


def test_report_in_dark_mode_keeps_figures_on_white(browser, report, tmp_path):
    (light,), _ = inspect(browser, report, tmp_path, [(1280, None)])
    (dark,), _ = inspect(browser, report, tmp_path, [(1280, None)], DARK)
    assert light["paper"] != dark["paper"]
    assert light["card"] == dark["card"] == "rgb(255, 255, 255)"
