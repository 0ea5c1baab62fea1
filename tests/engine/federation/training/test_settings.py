"""The learning rate by round, and settings of local training that do not go together."""

import pytest

from fedgrid.engine.federation.training.settings import LocalTraining, Schedule

PLAIN = {"batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1}


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        ({}, [1, 1]),
        ({"warmup": 2}, [0.5, 1, 1]),
        ({"kind": "step", "every": 2, "factor": 0.5}, [1, 1, 0.5, 0.5, 0.25]),
        ({"kind": "step", "every": 1, "factor": 0.5, "warmup": 2}, [0.5, 1, 1, 0.5]),
        ({"kind": "cosine", "rounds": 2}, [1, 0.5, 0.5]),
        ({"kind": "cosine", "rounds": 5, "warmup": 1}, [1, 1, 0.5 + 0.125**0.5, 0.5, 0.5 - 0.125**0.5]),
    ],
)
def test_share_of_the_learning_rate_by_round(schedule, shares):
    training = LocalTraining(**PLAIN, schedule=schedule)
    rates = [training.in_round(index).learning_rate for index in range(len(shares))]
    assert rates == pytest.approx([0.1 * share for share in shares])


def test_defaults_are_not_written():
    written = LocalTraining(**PLAIN, schedule=Schedule(kind="constant")).model_dump()
    assert not written.keys() & {"local_steps", "schedule", "clip_gradient"}
