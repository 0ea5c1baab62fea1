"""The texts that a scenario's seeds are drawn from: fixed for ever, whatever a split is called elsewhere.

They name a balance for every split. Another text would be another deal, and other rounds of every run. The
digest that makes a number of a text is pinned in `test_seeds`.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.federation import seeds
from fedgrid.engine.federation.before_training import setup
from fedgrid.engine.federation.configuration.run_config import Move
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.kinds import find_kind
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.complete import complete_config
from tests.helpers.partitions import deal_labels

TEXTS = {
    "nonoverlapping-balanced": "digits-6-nonoverlapping-balanced",
    "nonoverlapping-imbalanced": "digits-6-nonoverlapping-imbalanced",
    "overlapping-balanced": "digits-6-overlapping-balanced",
    "overlapping-imbalanced": "digits-6-overlapping-imbalanced",
    "majority": "digits-6-majority-balanced",
    "label-skew": "digits-6-label-skew-balanced",
    "dirichlet": "digits-6-dirichlet-balanced",
    "iid": "digits-6-iid-balanced",
    "rotated": "digits-6-rotated-balanced",
    "flipped": "digits-6-flipped-balanced",
    "swapped": "digits-6-swapped-balanced",
    "natural": "digits-6-natural-balanced",
}
OF_EACH_SPLIT = pytest.mark.parametrize(("split", "text"), TEXTS.items(), ids=TEXTS)

NOWHERE = Path("no-data-needed")
LABELS = np.arange(960) % 10
WRITERS = np.arange(960) // 120
"""Eight writers with the same classes: six clients are a seeded choice of them."""


@pytest.fixture
def drawn_from(monkeypatch):
    """The names of scenarios in the texts that seeds are drawn from during the test."""
    names, number = set(), seeds._hash_to_int

    def noted(text):
        names.update(re.findall(r"[^\s/,]*-6[^\s/,]*", text))
        return number(text)

    monkeypatch.setattr(seeds, "_hash_to_int", noted)
    return names


def split_of(kind, **options):
    return Split(kind=kind, **{**find_kind(kind).DEFAULTS, **options})


def deal(kind, dataset="digits", **options):
    of_pool = {"groups": WRITERS} if kind == "natural" else {}
    options = {**find_kind(kind).DEFAULTS, **options}
    return deal_labels(LABELS, kind, 6, dataset=dataset, of_pool=of_pool, **options)


def root_seed(kind, dataset="digits"):
    given = {"dataset": dataset, "split": split_of(kind)}
    return complete_config({"clients": 6}, NOWHERE).model_copy(update=given).root_seed


@OF_EACH_SPLIT
def test_root_seed_of_a_run(split, text):
    assert root_seed(split) == seeds.derive_root_seed(text, 0)


@OF_EACH_SPLIT
def test_deal_of_the_images(split, text, drawn_from):
    deal(split)
    assert drawn_from == {text}


@OF_EACH_SPLIT
def test_validation_images(split, text, drawn_from):
    deal(split, scored_on="validation")
    assert drawn_from == {text}


@pytest.mark.parametrize("split", ["overlapping-imbalanced", "rotated", "flipped", "swapped"])
def test_images_of_a_client_that_drifts(split, drawn_from):
    pool = ImageSet(np.zeros((len(LABELS), 1, 8, 8), np.uint8), LABELS)
    given = {"split": split_of(split), "drift": {1: Move(round=2, to=1)}}
    config = complete_config({"clients": 6}, NOWHERE).model_copy(update=given)
    partition = setup.deal_images(config, (pool, pool), 10)
    drawn_from.clear()
    setup.deal_after_moves(config, (pool, pool), 10, partition)
    assert drawn_from == {TEXTS[split]}


def test_own_images_are_dealt_by_their_format_and_trained_by_their_name(drawn_from):
    deal("rotated", dataset="folder:/home/me/cats")
    assert drawn_from == {"folder-6-rotated-balanced"}
    assert root_seed("rotated", "folder:cats@3f2a91c0d4e5") == seeds.derive_root_seed(
        "folder_cats-6-rotated-balanced", 0
    )
