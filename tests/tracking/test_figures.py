"""What the two figures show, and that the same records give the same bytes."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tracking import figures, records
from tracking.records import RecordsError

TRUTH = [0, 0, 1, 1]
LABELS = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]
SVG = "{http://www.w3.org/2000/svg}"


class Shown:
    """What is on a drawing."""

    def __init__(self, drawing: str) -> None:
        self._root = ElementTree.fromstring(drawing.encode())

    def texts(self, name: str) -> list[str]:
        """The texts of a class."""
        return [each.text or "" for each in self._root.iter(f"{SVG}text") if each.get("class") == name]

    def lines(self, name: str) -> list[list[tuple[float, float]]]:
        """The points of the lines of a class, in pixels."""
        found = [each for each in self._root.iter(f"{SVG}polyline") if each.get("class") == name]
        return [
            [(float(x), float(y)) for x, y in (point.split(",") for point in each.attrib["points"].split())]
            for each in found
        ]

    def titled(self, tag: str) -> dict[str, dict[str, str]]:
        """The shapes with a title, by title."""
        found = {each.findtext(f"{SVG}title"): each.attrib for each in self._root.iter(SVG + tag)}
        return {title: values for title, values in found.items() if title is not None}


def test_the_temperature_is_drawn_by_round_from_1_with_the_clustering_round(write_run):
    """The frame is 424 by 230 pixels at (66, 28), for rounds 0.5 to 3.5 and 0.2 to 0.4 with a margin of 12 %
    of 0.2: round 1 lies at 66 + 424 / 6, and 0.4 at 28 + 230 x 0.024 / 0.248."""
    folder = write_run(LABELS, TRUTH, temperature_R=[0.4, 0.2, 0.3], clustered=[3])
    shown = Shown(figures.temperature(records.read(folder)))
    assert list(shown.titled("circle")) == ["round 1: 0.4", "round 2: 0.2", "round 3: 0.3"]
    [curve] = shown.lines("curve")
    assert curve[0] == pytest.approx((66 + 424 / 6, 28 + 230 * 0.024 / 0.248), abs=1e-3)
    assert curve[2] == pytest.approx((66 + 424 * 5 / 6, 28 + 230 / 2), abs=1e-3)
    [mark] = shown.lines("clustering")
    assert [x for x, _ in mark] == [curve[2][0]] * 2
    assert shown.texts("clustering") == ["clustered in round 3"]
    assert shown.texts("tick") == ["0.2", "0.25", "0.3", "0.35", "0.4", "1", "2", "3"]
    assert shown.texts("axis") == ["round", "temperature"]


def test_a_run_that_never_clusters_has_no_mark(write_run):
    shown = Shown(figures.temperature(records.read(write_run(LABELS[:1], TRUTH))))
    assert shown.texts("clustering") == []
    assert list(shown.titled("circle")) == ["round 1: 0.5"]


def test_rounds_without_a_temperature_are_gaps(write_run):
    folder = write_run([[0, 0]] * 5, [0, 0], temperature_R=[0.1, float("nan"), 0.3, 0.4, float("nan")])
    shown = Shown(figures.temperature(records.read(folder)))
    assert [len(line) for line in shown.lines("curve")] == [1, 2]
    never = write_run([[0, 0]] * 2, [0, 0], temperature_R=[float("nan")] * 2)
    assert Shown(figures.temperature(records.read(never))).lines("curve") == []


def test_the_map_has_a_bar_for_each_stretch_that_a_client_spends_in_a_cluster(write_run):
    """Clients 0 and 1 stay in cluster 0 for rounds 1 to 3; 2 and 3 leave it for cluster 1 in round 3."""
    shown = Shown(figures.cluster_map(records.read(write_run(LABELS, TRUTH, clustered=[3]))))
    bars = shown.titled("rect")
    assert list(bars) == [
        "client 0, rounds 1 to 3: cluster 0",
        "client 1, rounds 1 to 3: cluster 0",
        "client 2, rounds 1 to 2: cluster 0",
        "client 2, rounds 3 to 3: cluster 1",
        "client 3, rounds 1 to 2: cluster 0",
        "client 3, rounds 3 to 3: cluster 1",
    ]
    stays, _, before, after, *_ = bars.values()
    assert stays["fill"] == before["fill"] != after["fill"]
    assert [float(each["width"]) for each in (stays, before, after)] == pytest.approx(
        [424, 424 * 2 / 3, 424 / 3], abs=1e-2
    )
    assert shown.texts("cluster") == ["0", "0", "0", "1", "0", "1"]
    assert shown.texts("clustering") == ["clustered in round 3"]


def test_clients_of_a_hidden_group_stand_together_in_the_map(write_run):
    shown = Shown(figures.cluster_map(records.read(write_run([[0, 0, 0, 0]], [1, 0, 1, 0]))))
    assert shown.texts("tick")[:4] == ["1", "3", "0", "2"]
    assert shown.texts("group") == ["group 0", "group 1"]
    assert shown.lines("edge") == [[(66, 60), (490, 60)]], "below two rows of 16 pixels"


def test_thirty_clusters_have_thirty_colours():
    assert len({figures._colour(label) for label in range(30)}) == 30


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.5, 15.5, [2, 4, 6, 8, 10, 12, 14]), (0.5, 1.5, [1]), (0.5, 80.5, [10, 20, 30, 40, 50, 60, 70, 80])],
)
def test_rounds_are_numbered_in_steps_of_1_2_or_5(low, high, expected):
    assert figures.ticks(low, high, 11, whole=True) == expected


def test_the_same_records_give_the_same_bytes(write_run):
    folder = write_run(LABELS, TRUTH, clustered=[3])
    first = {path: path.read_bytes() for path in figures.write(folder)}
    second = {path: path.read_bytes() for path in figures.write(folder)}
    assert first == second
    names = sorted(path.relative_to(folder).as_posix() for path in first)
    assert names == ["figures/clusters.svg", "figures/temperature.svg"]


def test_a_run_without_records_leaves_no_figures(tmp_path: Path):
    with pytest.raises(RecordsError, match=r"no rounds\.parquet"):
        figures.write(tmp_path)
    assert not list(tmp_path.iterdir())
