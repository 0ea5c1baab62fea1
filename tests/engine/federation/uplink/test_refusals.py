"""What does not go with the uplink and its noise: one line that names the key, the value, what is allowed."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from tests.helpers.small_runs import config

CLIPPED = [{"clip": 0.5}]
NOISY = [*CLIPPED, {"noise": 0.1}]
CENTRAL = {"uplink": CLIPPED, "privacy": {"central_noise": 1.0}}
NO_MEANS = "not only means of updates"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"uplink": [{"squeeze": 1}]}, ["squeeze"]),
        ({"uplink": [{"clip": 0}]}, ["uplink", "clip", "0"]),
        ({"uplink": [{"clip": 1.0}, {"clip": "much"}]}, ["uplink", "clip", "much"]),
        ({"uplink": [{}]}, ["uplink", "clip"]),
        ({"uplink": {"clip": 1.0}}, ["uplink"]),
        ({"uplink": [{"clip": True}]}, ["uplink", "clip"]),
        ({"uplink": [{"noise": 0.5}]}, ["uplink", "noise", "without clip", "{clip: 1.0}"]),
        ({"uplink": [{"clip": 1.0}, {"noise": -1}]}, ["uplink", "noise", "-1"]),
        ({"uplink": [{"quantise": 9}]}, ["uplink", "quantise", "9", "8"]),
        ({"uplink": [{"quantise": 0}]}, ["uplink", "quantise", "0", "1"]),
        ({"uplink": [{"quantise": 1.5}]}, ["uplink", "quantise", "1.5"]),
        ({"uplink": [{"topk": 0}]}, ["uplink", "topk", "0"]),
        ({"uplink": [{"topk": 1.5}]}, ["uplink", "topk", "1.5"]),
        (
            {"uplink": [{"clip": 1.0}, {"quantise": 4}, {"noise": 1}]},
            ["uplink", "noise after quantise", "order"],
        ),
        ({"uplink": [{"topk": 0.1}, {"clip": 1.0}]}, ["uplink", "clip after topk", "order"]),
        ({"uplink": [{"topk": 0.1}, {"topk": 0.1}]}, ["uplink", "topk", "twice"]),
        ({"uplink": [{"clip": 1.0, "noise": 1}]}, ["uplink", "one key"]),
        ({"privacy": {"central_noise": 1.0}}, ["privacy.central_noise", "without clip", "{clip: 1.0}"]),
        ({**CENTRAL, "uplink": NOISY}, ["privacy.central_noise", "uplink", "take one"]),
        ({**CENTRAL, "algorithm": "scaffold"}, ["privacy.central_noise = 1", NO_MEANS]),
        (
            {**CENTRAL, "algorithm": {"name": "fedavg", "local": "scaffold"}},
            ["privacy.central_noise = 1", NO_MEANS],
        ),
        ({**CENTRAL, "algorithm": "leiden"}, ["privacy.central_noise = 1", NO_MEANS]),
        ({**CENTRAL, "algorithm": "solo"}, ["privacy.central_noise = 1", NO_MEANS]),
        ({"uplink": NOISY, "model": "resnet34"}, ["resnet34", "BatchNorm", "running_mean", "resnet9"]),
        ({**CENTRAL, "model": "resnet34"}, ["resnet34", "BatchNorm"]),
        ({"privacy": {"delta": 1}}, ["privacy.delta", "1"]),
        ({"privacy": {"neighbours": "all"}}, ["privacy.neighbours", "absent", "replaced"]),
        ({"privacy": {"epsilons": 1}}, ["epsilons", "privacy", "delta"]),
        ({"privacy": {"epsilon": 1}}, ["privacy.epsilon = 1", "uplink", "{noise: 1.0}"]),
        ({**CENTRAL, "privacy": {"central_noise": 1, "epsilon": 1}}, ["privacy.epsilon = 1", "server's"]),
        ({"algorithm": {"name": "ladd", "noise": 1}}, ["ladd", "noise without clip", "10"]),
        ({"algorithm": {"name": "ladd", "clip": 0}}, ["ladd", "clip", "greater than 0"]),
        (
            {"algorithm": {"name": "embeddings", "encoder": {"public": "mnist", "clip": 1}}},
            ["embeddings", "clip", "encoder.federated"],
        ),
        (
            {"algorithm": {"name": "embeddings", "encoder": {"federated": 2, "noise": 1}}},
            ["embeddings", "noise without clip"],
        ),
        (
            {
                "algorithm": {
                    "name": "embeddings",
                    "encoder": {"name": "convolutional", "federated": 2, "clip": 1, "noise": 1},
                }
            },
            ["encoder.noise = 1", "BatchNorm", "dense"],
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given, named):
    with pytest.raises(ConfigError) as error:
        config(**given)
    message = str(error.value)
    assert [word for word in named if word not in message] == [], message
    assert "\n" not in message
