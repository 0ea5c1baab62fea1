"""Code in a bundle is not executed without --trust, whichever command reads a grid's file that names it."""

from pathlib import Path
from shutil import copytree
from zipfile import ZipFile

import pytest

import fedgrid as public
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.submit.grid_files import prepare_arguments
from tests.helpers.bundles import edit_bundle
from tests.helpers.command_line import fedgrid
from tests.helpers.plugin_files import ALGORITHM

GRID = "dataset: digits\nalgorithm: fedavg\nclients: 4\nplugins: [{plugin}]\n"
OTHERS = "theirs/storage/grids/mine/preset.yaml"


@pytest.fixture
def executed(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that the bundle's code writes; the bundle is unpacked by hand, and imported."""
    mark = tmp_path / "executed"
    code = f"open({str(mark)!r}, 'w').close()\n" + ALGORITHM
    with edit_bundle(bundle, tmp_path / "evil.zip") as folder:
        [kept] = (folder / "storage/grids/mine/plugins").iterdir()
        (folder / "report/tables/evil.py").write_text(code)
        (folder / "storage/grids/mine/preset.yaml").write_text(GRID.format(plugin=f"plugins/{kept.name}"))
    monkeypatch.chdir(tmp_path)
    assert fedgrid("import", "evil.zip", "--name", "theirs").code == 0
    with ZipFile("evil.zip") as archive:
        archive.extractall("theirs")
    for grid in (Path("theirs/storage/grids/mine"), Path("runs/grids/theirs")):
        for plugin in (grid / "plugins").iterdir():
            plugin.write_text(code)
    Path("mine.py").write_text(code)
    return mark


@pytest.mark.parametrize(
    "command",
    [
        ("run", OTHERS, "--dry-run"),
        ("run", OTHERS, "--in-process"),
        ("run", "runs/grids/theirs/preset.yaml", "--dry-run"),
        ("run", "based.yaml", "--dry-run"),
        ("run", "names.yaml", "--dry-run"),
        ("run", "linked.yaml", "--dry-run"),
        ("run", "copied/preset.yaml", "--dry-run"),
        ("cite", OTHERS),
        ("search", "ocfl-affinity", "--base", OTHERS, "--dry-run"),
    ],
)
def test_no_command_executes_what_a_bundle_names(executed: Path, command: tuple[str, ...]) -> None:
    Path("based.yaml").write_text(f"base: {OTHERS}\n")
    Path("names.yaml").write_text(GRID.format(plugin="theirs/report/tables/evil.py"))
    Path("linked.yaml").symlink_to(OTHERS)
    copytree(Path(OTHERS).parent, "copied")
    Path("plugins").symlink_to(Path(OTHERS).with_name("plugins"))
    result = fedgrid(*command)
    assert result.code == 2
    assert "was not executed" in result.err
    assert "--trust" in result.err
    assert not executed.exists()


def test_job_takes_what_a_bundle_names_only_with_trust(executed: Path) -> None:
    """In the job's folder nothing tells where it came from."""
    with pytest.raises(ConfigError, match="was not executed"):
        list(prepare_arguments([OTHERS]))
    assert list(prepare_arguments([OTHERS, "--trust"])) == [OTHERS, "--trust"]
    assert not executed.exists()


def test_python_executes_it_only_with_trust(executed: Path) -> None:
    with pytest.raises(ConfigError, match="was not executed"):
        public.run_grid(OTHERS, in_process=True)
    with pytest.raises(ConfigError, match="was not executed"):
        public.run_grid({"plugins": ["theirs/report/tables/evil.py"]}, name="x", in_process=True)
    assert not executed.exists()


@pytest.mark.parametrize("more", [("--trust",), ("--plugin", "mine.py")])
def test_trusted_and_own_code_is_executed(executed: Path, more: tuple[str, ...]) -> None:
    """One's own copy has the same bytes. The next command trusts nothing."""
    assert fedgrid("run", OTHERS, "--dry-run", *more).code == 0
    assert executed.exists()
    assert fedgrid("run", OTHERS, "--dry-run").code == 2


def test_file_of_another_program_is_no_bundle(
    executed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of the user's own, below one with a `bundle.json` that no bundle has."""
    (tmp_path / "bundle.json").write_text('{"name": "webpack"}')
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    Path("own.py").write_text(ALGORITHM)
    Path("own.yaml").write_text(GRID.format(plugin="own.py"))
    assert fedgrid("run", "own.yaml", "--dry-run").code == 0
