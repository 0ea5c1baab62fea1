"""Settings that do not fit: one line that names the algorithm, the key, the value and what is allowed."""

import pytest

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError
from tests.helpers.small_runs import config

FEDNOVA_UNDER_OCFL = {"name": "ocfl-kmeans", "local": {"name": "fednova"}}
KEPT_STATE = {"momentum": 0.9, "keep_optimizer_state": True}
REFERENCES = {"split": {"reference_images": 20}}
MEDIAN = {"aggregate": "median"}


def own(name, words, **settings):
    """Return the case of an algorithm with these settings; the message names all words."""
    return {"algorithm": {"name": name, **settings}}, words.split()


def local(name, method, words):
    return {"algorithm": {"name": name, "local": method}, **REFERENCES}, words.split()


CASES = [
    ({"algorithm": "ocfl-kmean"}, ["ocfl-kmean'", *ALGORITHMS]),
    own("fedavg", "server_optimizer sgd yogi", server_optimizer="sgd"),
    own("fedavg", "server_learning_rate nan", server_learning_rate=float("nan")),
    own("fedavg", "server_learning_rate -1", server_learning_rate=-1.0),
    own("fedavg", "server_momentum 1.5", server_momentum=1.5),
    own("fedavg", "'learning_rate'", learning_rate=1.0),
    own("fedavg", "similarity_over weights 'parameters' 'state'", similarity_over="weights"),
    own("fedavg", "aggregate 'krumm' mean, median, trimmed-mean", aggregate="krumm"),
    own("fedavg", "aggregate attackers 0.5", aggregate={"name": "krum", "attackers": 0.5}),
    own(
        "fedavg",
        "aggregate.before 'nnm' none, nearest-neighbours",
        aggregate={"name": "krum", "before": "nnm"},
    ),
    own("fedavg", "aggregate radius", aggregate="centred-clipping"),
    own("scaffold", "aggregate krum scaffold leave out", aggregate="krum"),
    own("ocfl-kmeans", "aggregate krum fednova leave out", local="fednova", aggregate="krum"),
    own("louvain", "aggregate norm-clipping models geometric-median", aggregate="norm-clipping"),
    own("ocfl-kmeans", "norm-clipping models few_shot", few_shot=2, aggregate="norm-clipping"),
    own("scaffold", "aggregate median scaffold leave out", **MEDIAN),
    own("ocfl-kmeans", "aggregate median fednova leave out", local="fednova", **MEDIAN),
    own("fedprox", "mu -1", mu=-1),
    own("solo", "server_optimizer", server_optimizer="adam"),
    own("per-fedavg", "fine_tune 5 fedavg", fine_tune=5),
    own("per-fedavg", "variant second-order first-order hessian-free", variant="second-order"),
    own("per-fedavg", "delta 0", delta=0),
    own("per-fedavg", "alpha -0.1", alpha=-0.1),
    own("per-fedavg", "adapt_steps 1.5", adapt_steps=1.5),
    own("lg-fedavg", "shared -1", shared=-1),
    own("lg-fedavg", "shared 1.5", shared=1.5),
    own("lg-fedavg", "warmup_rounds -2", warmup_rounds=-2),
    own("sattler", "epsilon_1 -1", epsilon_1=-1.0),
    own("sattler", "epsilon_1 true false", epsilon_1=True),
    own("sattler", "epsilon_2 -1", epsilon_2=-1.0),
    own("sattler", "epsilon_1_share 1.1", epsilon_1_share=1.1),
    own("sattler", "epsilon_2_share 1.0", epsilon_2_share=1.0),
    own("sattler", "epsilon_1_share 0.3 epsilon_1 0.2", epsilon_1=0.2, epsilon_1_share=0.3),
    own("sattler", "epsilon_2_share 0.3 epsilon_2 0.2", epsilon_2=0.2, epsilon_2_share=0.3),
    own("sattler", "cooldown -1", cooldown=-1),
    own("sattler", "cooldown true false", cooldown=False),
    own("sattler", "linkage ward single complete", linkage="ward"),
    own("sattler", "gamma_max 1.5", gamma_max=1.5),
    own("sattler", "eps1 epsilon_1", eps1=1),
    own("sattler-as-published", "epsilon_1 None", epsilon_1=None),
    own("sattler-as-published", "epsilon_2_share 0.3 effect", epsilon_2_share=0.3),
    own("briggs", "round 0", round=0),
    own("briggs", "threshold -0.1", threshold=-0.1),
    own("briggs", "linkage median ward", linkage="median"),
    own("briggs", "metric l3 cosine", metric="l3"),
    own("briggs", "ward euclidean cosine", linkage="ward", metric="cosine"),
    own("briggs", "centre euclidean cosine", metric="euclidean", centre=True),
    own("ocfl-kmeans", "window 0", window=0),
    own("ocfl-kmeans", "window true false", window=True),
    own("ocfl-kmeans", "noise drop", noise="drop"),
    own("ocfl-kmeans", "clusterer.num_clusters 0", clusterer={"num_clusters": 0}),
    own("ocfl-kmeans", "clusterer.num_clusters true false", clusterer={"num_clusters": True}),
    own("ocfl-hdbscan", "clusterer.min_cluster_share 1.5", clusterer={"min_cluster_share": 1.5}),
    own("ocfl-meanshift", "bandwith clusterer", clusterer={"bandwith": 1.0}),
    own("louvain", "distance manhattan", distance="manhattan"),
    own("louvain", "exponent 0", exponent=0),
    own("louvain", "resolution 0", resolution=0),
    own("louvain", "attribution late", attribution="late"),
    own("louvain", "neighbours 0", neighbours=0),
    own("louvain", "beta -1", beta=-1),
    own("louvain", "late 0", late=0),
    own("louvain", "max_age -1", max_age=-1),
    own("ifca", "num_clusters 7 6 clients set algorithm.num_clusters", num_clusters=7),
    own("ifca", "choose_on set split.reference_images", choose_on="reference"),
    own("ward-told", "num_clusters 10 6 clients set algorithm.num_clusters", num_clusters=10),
    own("flis-dc", "set split.reference_images"),
    own("flis-hc-as-published", "set split.reference_images"),
    own("embeddings", "threshold 5.0 num_clusters 3", encoder="pixels", num_clusters=3, threshold=5.0),
    own("embeddings", "num_clusters 0", encoder="pixels", num_clusters=0),
    own("embeddings", "flip 0.6 0.5", encoder="pixels", flip=0.6),
    own("embeddings", "flip 0.6 0.5", encoder="pixels", flip=[0.1, 0.6]),
    local("fedavg", {"name": "fedprx"}, "local fedprx fedprox, fednova"),
    local("fedavg", {"mu": 0.1}, "local fedprox, fednova"),
    local("fedavg", {"name": "fedprox", "nu": 0.1}, "nu"),
    local("fedavg", {"name": "fedprox", "mu": -1}, "local mu -1"),
    local("scaffold", "fedprox", "scaffold local = fedprox fedavg"),
    local("solo", "fedprox", "solo local"),
    local("louvain", "fednova", "local = fednova models fedprox"),
    local("flis-hc-as-published", "fednova", "local = fednova models fedprox"),
    local("ifca", "scaffold", "local = scaffold choose fedprox"),
    local("flis-dc", "scaffold", "local = scaffold choose fedprox"),
    (
        {"algorithm": "fednova", "training": {"optimizer": "adam", "learning_rate": 0.001}},
        ["fednova", "optimizer = adam", "sgd"],
    ),
    ({"algorithm": FEDNOVA_UNDER_OCFL, "training": KEPT_STATE}, ["keep_optimizer_state", "momentum: 0"]),
    (
        {
            "algorithm": {"name": "per-fedavg", "variant": "hessian-free"},
            "training": {"precision": "bfloat16"},
        },
        ["per-fedavg", "training.precision", "variant: first-order", "float32"],
    ),
    (
        {
            "algorithm": {"name": "fedavg", **MEDIAN},
            "uplink": [{"clip": 1.0}],
            "privacy": {"central_noise": 1.0},
        },
        ["central_noise", "aggregate: mean"],
    ),
]


@pytest.mark.parametrize(("given", "words"), CASES, ids=lambda value: str(value)[:70])
def test_what_does_not_fit_is_refused_in_one_line(given, words):
    with pytest.raises(ConfigError) as caught:
        config(**{"training": {"optimizer": "sgd"}, **given})
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message


@pytest.mark.parametrize("name", ALGORITHMS)
def test_typo_is_refused_by_each_algorithm(name):
    with pytest.raises(ConfigError, match="server_learning_rte"):
        config({"name": name, "server_learning_rte": 1.0})
