"""Each benchmark runs to its end with `--quick`, and prints the figures that it is there for."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = {
    "augmentation": r"crop and flip take [\d.]+, normalising [\d.]+ of that time",
    "many_clients": r"[\d.]+ s a round, of it training [\d.]+; the rest over training -?[\d.]+",
    "many_runs": r"status +[\d.]+ +[\d.]+ +\d+",
    "precision": r"images/s in float32 and bfloat16: [\d.]+ times",
    "report": r"0 of \d\d files differ: the same bytes",
    "round_cache": r"taken / computed [\d.]+%, into the cache / no cache [\d.]+",
    "saving": r"[\d.]+ ms, \d+ kB a save from round 1 to 20 of 2 clients",
    "stacked": r"images/s one by one and stacked: [\d.]+ times",
}
ON_RAY = {
    "clustering": r"processor: streamed [\d.]+ s, by tensor [\d.]+ s, median ratio [\d.]+",
    "memory": r"together: ratio [\d.]+",
    "rounds": r"throughput engine / plain [\d.]+, cost engine / plain [\d.]+",
    "scheduling": r"[\d.]+ s per run, start of the actors included",
}
NO_OPTION = {
    "local_steps": (["quickstart"], r"nonoverlapping-balanced: [\d.]+ steps a round"),
    "paper_scale": ([], r"Of [\d,]+ rounds [\d,]+ to [\d,]+ are computed"),
}
"""Benchmarks that train nothing and take a second as they are."""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks set the number of threads when they are imported; what follows has its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("name", FIGURES)
def test_quick_benchmark_prints_its_figures(name: str, capsys: pytest.CaptureFixture[str]):
    import_module(f"benchmarks.{name}").main(["--quick"])
    assert re.search(FIGURES[name], capsys.readouterr().out)


@pytest.mark.ray
@pytest.mark.parametrize("name", ON_RAY)
def test_quick_benchmark_on_ray_prints_its_figures(
    name: str, ray_session: None, capsys: pytest.CaptureFixture[str]
):
    import_module(f"benchmarks.{name}").main(["--quick"])
    assert re.search(ON_RAY[name], capsys.readouterr().out)


@pytest.mark.parametrize("name", NO_OPTION)
def test_benchmark_without_training_prints_its_figures(name: str, capsys: pytest.CaptureFixture[str]):
    arguments, figures = NO_OPTION[name]
    import_module(f"benchmarks.{name}").main(*([arguments] if arguments else []))
    assert re.search(figures, capsys.readouterr().out)


def test_benchmarks_that_pages_name_are_there():
    """But for those of an older commit, which the page names too."""
    pages = [page.read_text() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
    of_this_commit = [re.sub(r"git checkout \w+\n.*\n", "", page) for page in pages]
    named = {name for page in of_this_commit for name in re.findall(r"python -m (benchmarks[\w.]*)", page)}
    assert "benchmarks.rounds" in named
    assert [name for name in sorted(named) if find_spec(name) is None] == []
