"""What the two figures show, and that the same records give the same bytes."""

import hashlib
from pathlib import Path

import matplotlib
import pytest

from tracking import figures
from tracking.records import RecordsError, read

TRUTH = [0, 0, 1, 1]
LABELS = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]


def test_the_temperature_is_drawn_by_round_from_1_with_the_clustering_round(write_run):
    folder = write_run(LABELS, TRUTH, temperature_R=[0.4, 0.2, 0.3], clustered=[3])
    axes = figures.temperature(read(folder)).axes[0]
    curve, mark = axes.lines
    assert curve.get_xydata().tolist() == [[1, 0.4], [2, 0.2], [3, 0.3]]
    assert list(mark.get_xdata()) == [3, 3]
    assert [text.get_text() for text in axes.texts] == ["clustered in round 3"]


def test_a_run_that_never_clusters_has_no_mark(write_run):
    axes = figures.temperature(read(write_run(LABELS[:1], TRUTH))).axes[0]
    assert len(axes.lines) == 1
    assert not axes.texts


def test_the_map_has_a_bar_for_each_stretch_that_a_client_spends_in_a_cluster(write_run):
    """Clients 0 and 1 stay in cluster 0 for rounds 1 to 3; 2 and 3 leave it for cluster 1 in round 3."""
    axes = figures.cluster_map(read(write_run(LABELS, TRUTH, clustered=[3]))).axes[0]
    bars = [(bar.get_x(), round(bar.get_y() + bar.get_height() / 2), bar.get_width()) for bar in axes.patches]
    assert bars == [(0.5, 0, 3), (0.5, 1, 3), (0.5, 2, 2), (2.5, 2, 1), (0.5, 3, 2), (2.5, 3, 1)]
    stays, _, before, after, *_ = (bar.get_facecolor() for bar in axes.patches)
    assert stays == before != after
    assert [text.get_text() for text in axes.texts] == ["0", "0", "0", "1", "0", "1", "clustered in round 3"]


def test_clients_of_a_hidden_group_stand_together_in_the_map(write_run):
    axes = figures.cluster_map(read(write_run([[0, 0, 0, 0]], [1, 0, 1, 0]))).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "3", "0", "2"]
    assert [list(line.get_ydata()) for line in axes.lines] == [[1.5, 1.5]]


def test_thirty_clusters_have_thirty_colours():
    assert len({figures._colour(label) for label in range(30)}) == 30


def test_the_same_records_give_the_same_bytes_whatever_matplotlib_is_set_to(write_run):
    folder = write_run(LABELS, TRUTH, clustered=[3])
    first = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in figures.write(folder)}
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 10}):
        second = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in figures.write(folder)}
    assert first == second
    assert sorted(path.relative_to(folder).as_posix() for path in first) == [
        "figures/clusters.png",
        "figures/temperature.png",
    ]


def test_a_run_without_records_leaves_no_figures(tmp_path: Path):
    with pytest.raises(RecordsError, match=r"no rounds\.parquet"):
        figures.write(tmp_path)
    assert not list(tmp_path.iterdir())
