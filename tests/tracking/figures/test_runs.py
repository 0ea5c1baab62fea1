"""What the figure of a run shows, and that the same records give the same bytes."""

import numpy as np

from fedgrid.tracking import figures
from fedgrid.tracking.records import read_records

TRUTH = [0, 0, 1, 1]
LABELS = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def colours(axes):
    """Rows of the map's picture as names: equal colours have equal letters, in the order of reading."""
    picture = np.asarray(axes.images[0].get_array())
    letters: dict[tuple[float, ...], str] = {}
    return [
        "".join(letters.setdefault(tuple(pixel), chr(ord("a") + len(letters))) for pixel in row)
        for row in picture
    ]


def test_the_temperature_is_drawn_by_round_from_1_with_the_clustering_round(write_run):
    folder = write_run(LABELS, TRUTH, temperature_R=[0.4, 0.2, 0.3], clustered=[3])
    axes = figures.run_figure(read_records(folder)).axes[0]
    curve, mark = axes.lines
    assert curve.get_xydata().tolist() == [[1, 0.4], [2, 0.2], [3, 0.3]]
    assert list(mark.get_xdata()) == [3, 3]
    assert texts(axes) == ["clustered in round 3"]
    assert axes.get_ylabel() == "temperature"


def test_a_tiny_temperature_is_numbered_in_units_of_a_power_of_ten(write_run):
    folder = write_run(LABELS, TRUTH, temperature_R=[4e-6, 2e-6, 3e-6])
    formatter = figures.run_figure(read_records(folder)).axes[0].yaxis.get_major_formatter()
    assert (formatter(2.5e-6), formatter.get_offset()) == ("2.5", "×10⁻⁶")


def test_the_map_is_a_pixel_a_client_and_round_grey_until_most_of_a_cluster_are_of_one_group(write_run):
    """Until round 3 the one cluster is half of group 0 and half of group 1."""
    axes = figures.cluster_map(read_records(write_run(LABELS, TRUTH, clustered=[3]))).axes[0]
    assert colours(axes) == ["aab", "aab", "aac", "aac"]
    grey = np.asarray(axes.images[0].get_array())[0, 0]
    assert len(set(grey)) == 1
    assert axes.images[0].get_extent() == [0.5, 3.5, 3.5, -0.5]


def test_the_map_numbers_a_stretch_at_the_first_of_the_clients_that_start_it_together(write_run):
    """All start in cluster 0; in round 3 clients 0 and 1 stay in it, 2 and 3 start cluster 1."""
    axes = figures.cluster_map(read_records(write_run(LABELS, TRUTH, clustered=[3]))).axes[0]
    assert texts(axes) == ["0", "1", "clustered in round 3"]
    assert [text.xy for text in axes.texts[:2]] == [(0.5, 0), (2.5, 2)]


def test_clients_of_a_hidden_group_stand_together_in_the_map_with_a_line_between_groups(write_run):
    axes = figures.cluster_map(read_records(write_run([[0, 0, 0, 0]], [1, 0, 1, 0]))).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "3", "0", "2"]
    [between] = axes.collections
    assert between.get_segments()[0].tolist() == [[0, 1.5], [1, 1.5]]


def test_thirty_clusters_have_thirty_colours(write_run):
    folder = write_run([list(range(30))], [0] * 10 + [1] * 10 + [2] * 10)
    assert len(set(colours(figures.cluster_map(read_records(folder)).axes[0]))) == 30


def test_figure_of_a_run_has_the_temperature_above_the_clusters_of_the_same_rounds(write_run, tmp_path):
    folder, to = write_run(LABELS, TRUTH, clustered=[3]), tmp_path / "new" / "figures"
    assert figures.write(folder, to) == to / "run.png"
    assert [path.name for path in to.iterdir()] == ["run.png"]
    above, below = figures.run_figure(read_records(folder)).axes
    assert (above.get_ylabel(), below.get_xlabel()) == ("temperature", "round")
    assert above.get_xlim() == below.get_xlim()
    assert above.get_position().y0 > below.get_position().y1
    assert (texts(above), texts(below)) == (["clustered in round 3"], ["0", "1"])


def test_figure_of_a_run_without_a_temperature_has_the_clusters_alone(write_run):
    folder = write_run(LABELS, TRUTH, temperature_R=[np.nan] * 3)
    [axes] = figures.run_figure(read_records(folder)).axes
    assert axes.get_ylabel() == "client, by hidden group"


def test_map_of_many_clients_is_no_taller_and_numbers_only_what_a_line_of_text_fits_beside(write_run):
    """Of 1,000 clients a line covers 13. Client 491 alone is in cluster 1 among those of cluster 0."""
    truth, labels = [0] * 500 + [1] * 500, [0] * 500 + [1] * 500
    labels[491] = 1
    small = figures.cluster_map(read_records(write_run([labels[490:510]] * 2, truth[490:510])))
    assert texts(small.axes[0])[:-1] == ["0", "1", "0", "1"]
    large = figures.cluster_map(read_records(write_run([labels] * 2, truth)))
    assert small.get_figheight() < large.get_figheight() < 9
    assert texts(large.axes[0])[:-1] == ["0", "1"]
