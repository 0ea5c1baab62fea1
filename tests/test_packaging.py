"""sdist, wheel from the sdist, empty environment: every file arrives, and the quickstart runs there."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from shutil import copyfile, copytree

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from fedgrid.engine.federation.format import FORMAT
from tests.helpers.command_line import build_environment

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IN_USE = ROOT / "tests" / "helpers" / "wheel_in_use.py"


def ran(*command: object, folder: Path) -> str:
    """Run a command that must succeed, in `folder` and without this checkout on Python's path."""
    settings = {name: value for name, value in build_environment().items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**settings, "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def build(target: str, checkout: Path, into: Path) -> Path:
    """Build an sdist, a wheel or an editable wheel with what this environment has; return the file."""
    name, _, version = target.partition(":")
    builder = {"sdist": SdistBuilder, "wheel": WheelBuilder}[name](str(checkout))
    [built] = builder.build(directory=str(into), versions=[version] if version else None)
    return Path(built)


def repository_files() -> set[str]:
    """Return the files of the repository, new ones too, without what .gitignore names."""
    if (ROOT / ".git").exists():
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-per-directory=.gitignore"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
            "\0"
        )
    else:
        ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
        names = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if not any(fnmatch(part, name) for part in path.relative_to(ROOT).parts for name in ignored)
        ]
    return {name for name in names if (ROOT / name).is_file()}


def package_files() -> dict[str, bytes]:
    """Return what the package must hold, by the name in it: modules, templates, tables and all else."""
    names = (name for name in repository_files() if name.startswith("fedgrid/"))
    return {name: (ROOT / name).read_bytes() for name in names}


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the files below `folder`, without compiled modules."""
    paths = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if path.parent.name != "__pycache__"
    }


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder := tmp_path_factory.mktemp("unpacked"), filter="data")
    [checkout] = folder.iterdir()
    return build("wheel", checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment that has the wheel and all dependencies, not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    [site_packages] = folder.glob("lib/python*/site-packages")
    # Python reads no .pth files in a folder that a .pth file names: an editable install is not seen.
    shared = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site_packages / "shared.pth").write_text("\n".join(shared))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install"]
    ran(*pip, "--quiet", "--no-index", "--no-deps", "--no-compile", wheel, folder=folder)
    return folder / "bin"


def test_sdist_has_every_file_of_the_repository(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == repository_files() | {"PKG-INFO"}


def test_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    expected = package_files()
    assert {"fedgrid/py.typed", "fedgrid/tracking/report/report.css"} < expected.keys()
    assert found.keys() == expected.keys()
    assert [name for name, content in expected.items() if found[name] != content] == []


def test_editable_install_is_the_checkout(tmp_path: Path) -> None:
    with zipfile.ZipFile(build("wheel:editable", ROOT, tmp_path)) as archive:
        [path_file] = [name for name in archive.namelist() if name.endswith(".pth")]
        assert archive.read(path_file).decode().strip() == str(ROOT)


@pytest.mark.parametrize("name", ["cluster.yaml", "clusters/aws.yaml", "clusters/gcp.yaml", ".dockerignore"])
def test_machines_and_containers_get_what_an_installation_needs(name: str, tmp_path: Path) -> None:
    """The set-up of a cluster copies some files and folders to its machines, Docker those not ignored."""
    text = (ROOT / name).read_text()
    if name == ".dockerignore":
        brought = [line[1:] for line in text.splitlines() if line.startswith("!")]
    else:
        brought = [each for each in yaml.safe_load(text)["file_mounts"].values() if "/" not in each]
    (checkout := tmp_path / "checkout").mkdir()
    for each in brought:
        copy = copytree if (ROOT / each).is_dir() else copyfile
        copy(ROOT / each, checkout / each)
    build("wheel:editable", checkout, tmp_path / "wheel")
    assert files_below(checkout / "fedgrid") == files_below(ROOT / "fedgrid")


@pytest.fixture(scope="module")
def used(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return the folder in which the wheel was used, and the lines that were printed."""
    folder = tmp_path_factory.mktemp("used")
    return folder, ran(programs / "python", "-P", IN_USE, folder=folder).splitlines()


def seen(used: tuple[Path, list[str]], what: str) -> object:
    """Return something of what was seen meanwhile."""
    return json.loads(used[1][-1])[what]


def test_wheel_brings_the_program(programs: Path, tmp_path: Path) -> None:
    assert PROJECT["version"] in ran(programs / "fedgrid", "--version", folder=tmp_path)


def test_import_and_writing_an_algorithm_bring_nothing_heavy(used: tuple[Path, list[str]]) -> None:
    engine = ["fedgrid.engine", "fedgrid.engine.federation", "fedgrid.engine.federation.errors"]
    assert seen(used, "modules at import") == [*engine, "fedgrid.redaction"], "lazy"
    assert seen(used, "heavy packages for an algorithm") == []


def test_runs_and_all_names_need_neither_ray_nor_mlflow_nor_packages_under_the_gpl(
    used: tuple[Path, list[str]],
) -> None:
    """Nor sympy, which torch imports for some of its functions: half a second for each client actor."""
    assert seen(used, "rows") == [2, 6]
    assert (seen(used, "clusters"), seen(used, "folder")) == (1, str(used[0] / "here"))
    assert not seen(used, "sympy by a run")


@pytest.mark.slow
def test_quickstart_and_report_run_from_the_wheel(used: tuple[Path, list[str]]) -> None:
    folder, lines = used
    assert any("1 of 1 runs finished" in line for line in lines)
    assert any("index.html" in line for line in lines)
    page = (folder / "runs" / "grids" / "quickstart" / "report" / "index.html").read_text()
    css, script = (
        (ROOT / "fedgrid" / "tracking" / "report" / f"report.{kind}").read_text() for kind in ("css", "js")
    )
    assert css.strip() in page
    assert script.strip() in page


def test_citation_and_changelog_agree_with_the_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    name, description = PROJECT["name"], PROJECT["description"]
    assert citation["title"] == f"{name}: {description[0].lower()}{description[1:]}"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"] == "MIT"
    assert citation["authors"] == PROJECT["authors"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation.get("repository-code") == PROJECT["urls"].get("Repository")
    assert citation["references"][0]["url"] == PROJECT["urls"]["Paper"]
    released = citation.get("date-released", "not tagged yet")
    heading = f"## {PROJECT['version']} ({released}, format {FORMAT} of runs)"
    assert heading in (ROOT / "CHANGELOG.md").read_text().splitlines()
