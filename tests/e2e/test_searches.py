"""A search on Ray that is killed and resumed, and a grid that uses its result."""

import signal

import pytest

from tests.helpers.command_line import fedgrid, new_storage, started, stop, strict_json, wait_for_round

SEARCH = ("search", "briggs", "--clients", 3, "--set", "training.rounds=3", "--trials", 9)


ONE_AT_A_TIME = ("--clients-per-actor", 3, "--cpus-per-client", 3.5)
"""One actor, which takes most of the session's four CPUs: each trial runs in the processes of the last."""


def contents(storage):
    folder = storage / "grids" / "briggs-digits"
    paths = [folder / "search.json", folder / "search.csv", *sorted((folder / "figures").iterdir())]
    return {path.name: path.read_bytes() for path in paths}


@pytest.mark.ray
@pytest.mark.slow
def test_killed_search_resumes_on_ray_and_gives_the_undisturbed_result(ray_session, tmp_path):
    """Two batches; killed in the first one in a process of its own, resumed on Ray."""
    here, ray = new_storage(tmp_path / "here"), new_storage(tmp_path / "ray")
    assert fedgrid(*SEARCH, "--in-process", "--storage", here).code == 0
    with started(*SEARCH, "--in-process", "--storage", ray, "--json") as process:
        wait_for_round(process, 2)
        assert stop(process, signal.SIGKILL)[0] == -signal.SIGKILL
    assert fedgrid(*SEARCH, *ONE_AT_A_TIME, "--storage", ray).code == 0
    assert contents(ray) == contents(here)

    search = strict_json((ray / "grids" / "briggs-digits" / "search.json").read_text())
    found = search["best"]["label_free"]["params"]
    tuned = fedgrid(
        *("run", "--algorithm", "briggs", "--clients", 3, "--set", "training.rounds=3", "--in-process"),
        *("--tuned", "briggs-digits", "--storage", ray, "--json"),
    )
    assert tuned.code == 0
    [config] = [
        strict_json(path.read_text()) for path in ray.glob(f"*-{tuned.events[-1]['run_id']}/config.json")
    ]
    assert {key: config["algorithm"][key] for key in found} == found
    assert "scored_on" not in config["split"]
    assert "# tuned: briggs-digits, trial " in (ray / "grids" / "runs" / "preset.yaml").read_text()
