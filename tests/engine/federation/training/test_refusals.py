"""Settings of training that do not go together: one line that names the key, the value, what is allowed."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from tests.helpers.small_runs import config

VALIDATION = {"split": {"scored_on": "validation"}}
OWN_TRAINING = ("fedprox", "scaffold", "fednova", "per-fedavg", "lg-fedavg")


def training(words, **settings):
    return {"training": {"optimizer": "sgd", **settings}}, words.split()


def stopping(words, training=(), **given):
    """Return the case of a run that stops after two rounds without a better score."""
    return {
        **VALIDATION,
        **given,
        "training": {"rounds": 9, "stop_after": 2, **dict(training)},
    }, words.split()


def stacked(algorithm):
    return {"algorithm": algorithm, **training("", stacked=4)[0]}, ["stacked = 4", "set training.stacked=1"]


CASES = [
    training("local_epochs", local_steps=5, local_epochs=2),
    training("stacked", local_steps=5, stacked=2),
    training("stacked", buffers="reset", stacked=2),
    training("every and factor", schedule={"kind": "step", "every": 2}),
    training("cosine takes rounds", schedule={"kind": "cosine", "rounds": 2, "every": 1}),
    training("kind constant", schedule={"rounds": 2}),
    training("warm-up", schedule={"kind": "cosine", "rounds": 3, "warmup": 3}),
    training("augment crop", augment=["crop", "crop"]),
    training("augment rotate", augment="rotate"),
    *map(stacked, (*OWN_TRAINING, {"name": "fedavg", "local": "fedprox"})),
    stopping("training.stop_after = 2 split.scored_on=validation", split={}),
    stopping("training.stop_after = 2 training.rounds = 3", {"rounds": 3}),
    stopping(
        "training.stop_after = 2 local_server = last true or false", evaluation={"local_server": "last"}
    ),
    stopping("training.stop_after = 1 4", {"rounds": 4, "stop_after": 1}, evaluation={"every": 2}),
]


@pytest.mark.parametrize(("given", "words"), CASES, ids=lambda value: str(value)[:70])
def test_what_does_not_go_together_is_refused_in_one_line(given, words):
    with pytest.raises(ConfigError) as caught:
        config(**given)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message
