"""Records of explained images as a report reads them: by hand."""

from math import isnan

import pyarrow as pa
import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.explain.analysis import compute_image_means
from fedgrid.grids.explain.compute.records import CURVES, SCHEMA
from fedgrid.grids.explain.compute.settings import ExplanationSettings
from fedgrid.grids.explain.shown.results import JobRecords, summarise_records
from fedgrid.grids.results.runs import describe_configs
from tests.helpers.small_grid import config

FOUR_POINTS = {f"{name}_curve": [0.0, 0.25, 0.5, 1.0] for name in CURVES}


def row(insertion, deletion=0.0, *, client=0, cluster=0, place=0, chance=0.0, p=1.0, **given):
    """An image whose random order has a gap of `chance`."""
    return {
        **{"client": client, "cluster": cluster, "holder": client, "place": place, "trained_on": False},
        **{"label": 1, "prediction": 1, "insertion": insertion, "deletion": deletion, "p_full": p},
        **{"random_insertion": chance, "random_deletion": 0.0, "empty": False},
        **FOUR_POINTS,
        **given,
    }


def read(rows, tmp_path, algorithm="fedavg", on="members", **settings):
    (run,) = describe_configs([config(seed=1, algorithm=algorithm)], Storage(tmp_path))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return JobRecords(run, ExplanationSettings(on=on, round=3, images=2, **settings), table, (1, 2, 2))


def test_scores_of_a_model_are_means_over_its_images(tmp_path):
    """Gaps 0.5 and 0.1, of which chance earns 0.25 and 0; p is 0.5 and 1."""
    rows = [
        row(0.75, 0.25, chance=0.25, p=0.5, empty=True, trained_on=True),
        row(0.3, 0.2, place=1, prediction=2),
        row(0.5, cluster=1, client=1),
    ]
    one, other = summarise_records([read(rows, tmp_path)]).explained
    assert (one.insertion, one.deletion, one.gap) == pytest.approx((0.525, 0.225, 0.3))
    assert (one.excess, one.relative_excess) == pytest.approx(((0.25 + 0.1) / 2, (0.5 + 0.1) / 2))
    assert (one.relative_insertion, one.relative_deletion) == pytest.approx((0.9, 0.35))
    assert (one.p_full, one.empty, one.accuracy) == (0.75, 0.5, 0.5)
    assert (one.unseen, one.unseen_gap, one.weight) == (1, pytest.approx(0.1), 2)
    assert (other.insertion, other.weight, other.algorithm) == (0.5, 1, "fedavg")


def test_as_published_the_last_short_batch_weighs_like_the_others_and_clusters_are_equal(tmp_path):
    """32 images of 0.5 and one of 1: (0.5 + 1) / 2."""
    rows = [row(0.5, place=place) for place in range(32)] + [row(1.0, place=32)]
    found = summarise_records([read(rows, tmp_path, as_published=True)])
    assert [(each.insertion, each.weight) for each in found.explained] == [(0.75, 1)]
    assert set(found.excess) == {("members", "fedavg")}
    assert found.excess["members", "fedavg"] == {}, "nothing is paired"


def test_image_without_scores_leaves_its_model_without_any(tmp_path):
    diverged = {name: None for name in ("insertion", "deletion", *FOUR_POINTS)}
    found = summarise_records([read([row(0.5), row(0.5, place=1) | diverged], tmp_path)])
    assert isnan(found.explained[0].insertion)
    assert len(found.excess["members", "fedavg"]) == 1
    assert found.bands[0].images == 1
    assert "explanations/members_insertion" not in compute_image_means(read([row(0.5) | diverged], tmp_path))


def test_bands_are_means_and_quartiles_of_the_images(tmp_path):
    rows = [row(0.5, place=place, insertion_curve=[0.0, place / 4, 0.0, 1.0]) for place in range(5)]
    (band,) = summarise_records([read(rows, tmp_path)]).bands
    assert band.means["insertion"].tolist() == [0, 0.5, 0, 1]
    assert band.quartiles["insertion"][:, 1].tolist() == [0.25, 0.75]


def test_run_with_one_cluster_has_no_others_and_the_report_says_so(tmp_path):
    found = summarise_records([read([], tmp_path, on="others")], missing=2)
    assert found.explained == ()
    assert found.lacking == (
        "2 runs and distributions have no explanations.",
        "No images of others, as all clients are in one cluster: fedavg.",
    )


def test_different_settings_within_a_scenario_are_not_to_be_compared(tmp_path):
    alike = [read([row(0.5)], tmp_path, name) for name in ("fedavg", "ocfl-kmeans")]
    assert "2 images of each client" in summarise_records(alike).about
    other = read([row(0.5)], tmp_path, "ocfl-kmeans", steps=8)
    assert "do not compare them" in summarise_records([alike[0], other]).about


def test_metrics_are_named_by_distribution_score_and_style(tmp_path):
    """The gap of two images is 0.25; both are seen, so that there is no gap of unseen ones."""
    rows = [row(0.5, 0.25, trained_on=True), row(0.25, 0.0, place=1, trained_on=True)]
    found = compute_image_means(read(rows, tmp_path))
    assert found["explanations/members_gap"] == 0.25
    assert "explanations/members_excess_by_p" in found
    assert "explanations/members_gap_of_unseen" not in found
    assert "explanations/members_gap_as_published" in compute_image_means(
        read(rows, tmp_path, as_published=True)
    )
