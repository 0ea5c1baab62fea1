"""A search on Ray that is killed and resumed, and a grid that uses its result."""

import pytest

from fedgrid.grids.search import progress
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.killed import Killed, kill_after

SEARCH = ("search", "briggs", "--clients", 3, "training.rounds=3", "--trials", 3)


ONE_AT_A_TIME = ("--clients-per-actor", 3, "--cpus-per-actor", 3.5)
"""One actor, which takes most of the session's four CPUs: each trial runs in the processes of the last."""


def contents(storage):
    folder = storage / "grids" / "briggs-digits"
    paths = [folder / "search.json", folder / "search.csv", *sorted((folder / "figures").iterdir())]
    return {path.name: path.read_bytes() for path in paths}


@pytest.mark.ray
@pytest.mark.slow
def test_killed_search_resumes_on_ray_and_gives_the_undisturbed_result(ray_session, tmp_path, monkeypatch):
    """Two batches, of two trials and one; killed in the first one, resumed on Ray.

    A command killed in a process of its own: test_interruptions.py.
    """
    monkeypatch.setattr(progress, "BATCH", 2)
    here, ray = new_storage(tmp_path / "here"), new_storage(tmp_path / "ray")
    assert fedgrid(*SEARCH, "--in-process", "--storage", here).code == 0
    with monkeypatch.context() as patch:
        kill_after(2, patch)
        with pytest.raises(Killed):
            fedgrid(*SEARCH, "--in-process", "--storage", ray)
    assert fedgrid(*SEARCH, *ONE_AT_A_TIME, "--storage", ray).code == 0
    assert contents(ray) == contents(here)

    search = strict_json((ray / "grids" / "briggs-digits" / "search.json").read_text())
    found = search["best"]["label_free"]["params"]
    tuned = fedgrid(
        *("run", "--algorithm", "briggs", "--clients", 3, "training.rounds=3", "--in-process"),
        *("--tuned", "briggs-digits", "--storage", ray, "--json"),
    )
    assert tuned.code == 0
    [config] = [
        strict_json(path.read_text()) for path in ray.glob(f"*-{tuned.events[-1]['run_id']}/config.json")
    ]
    assert {key: config["algorithm"][key] for key in found} == found
    assert "scored_on" not in config["split"]
    assert "# tuned: briggs-digits, trial " in (ray / "grids" / "runs" / "preset.yaml").read_text()
