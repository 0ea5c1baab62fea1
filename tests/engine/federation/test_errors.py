"""Errors know the key that they are about, so that its place in a file can be named."""

import pickle
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import (
    PLUGIN_MODULE,
    ConfigError,
    FinalError,
    RunError,
    client_error_context,
    is_final,
    suggest_name,
    unknown_key_error,
    unknown_name_error,
)
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.configuration.validation import find_key

NOWHERE = Path("no-data-needed")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"cleints": 3}, ("cleints",)),
        ({"clients": 0}, ("clients",)),
        ({"dataset": "mnits"}, ("dataset",)),
        ({"model": "vgg"}, ("model",)),
        ({"training": {"rouns": 3}}, ("training", "rouns")),
        ({"training": {"rounds": 2.5}}, ("training", "rounds")),
        ({"training": {"optimizer": "adam", "momentum": 0.5}}, ("training",)),
        ({"split": 5}, ("split",)),
        ({"algorithm": "bcn"}, ("algorithm",)),
        ({"algorithm": {"name": "sattler", "cooldwn": 3}}, ("algorithm", "cooldwn")),
        ({"algorithm": {"name": "sattler", "cooldown": -1}}, ("algorithm", "cooldown")),
        (
            {"algorithm": {"name": "ocfl-kmeans", "clusterer": {"num_clusters": 0}}},
            ("algorithm", "clusterer", "num_clusters"),
        ),
        ({"algorithm": {"name": "ocfl-kmeans", "clusterer": {"name": "hdbscan"}}}, ("algorithm",)),
    ],
    ids=str,
)
def test_a_refused_configuration_names_its_key(given, key):
    with pytest.raises(ConfigError) as caught:
        complete_config(given, NOWHERE)
    assert find_key(caught.value) == key


def test_error_without_a_key_has_an_empty_path():
    assert find_key(ConfigError("no room on the disk")) == ()


def test_key_survives_pickling():
    """Ray pickles the errors of its actors."""
    error = pickle.loads(pickle.dumps(ConfigError("clients = 0", ("clients",))))
    assert (str(error), error.key) == ("clients = 0", ("clients",))


class OutOfMemoryError(RuntimeError):
    """As torch's."""


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (ZeroDivisionError("division by zero"), True),
        (KeyError("mine"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x3 and 4x2)"), True),
        (FinalError("every update is NaN"), True),
        (ConfigError("batches of one image"), True),
        (RunError("client 3, round 2: its actor died"), False),
        (OSError(28, "No space left on device"), False),
        (MemoryError(), False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (OutOfMemoryError("tried to allocate 2 GiB"), False),
        (TimeoutError("no answer"), False),
    ],
    ids=repr,
)
def test_a_plugins_slips_are_final_and_what_may_pass_is_not(error, final):
    """Raised by a function of a plugin's module."""
    module = {"__name__": f"{PLUGIN_MODULE}1234", "__file__": "mine.py", "error": error}
    exec("def fail():\n    raise error", module)
    with pytest.raises(type(error)) as caught:
        module["fail"]()
    assert is_final(caught.value) is final
    with pytest.raises(RunError, match="^client 3, round 2: ") as at_a_client, client_error_context(3, 1):
        module["fail"]()
    assert is_final(at_a_client.value) is final


def test_an_unexpected_error_of_our_own_code_is_retried():
    """Files that a damaged disk returns can be what it stumbles over."""
    assert not is_final(ValueError("a bug of ours"))


def test_unknown_names_list_the_nearest_and_all_known():
    assert str(unknown_name_error("model", "resnet", ["resnet34", "tinyvgg"])) == (
        "unknown model 'resnet'; did you mean 'resnet34'? known: resnet34, tinyvgg"
    )
    assert str(unknown_name_error("axis", "x", ["seed"])) == "unknown axis 'x'; known: seed"
    assert str(unknown_name_error("model", "x.py", ["tinyvgg"])) == (
        "unknown model 'x.py'; one of your own: --plugin x.py, and the name that it has there; known: tinyvgg"
    )
    assert str(unknown_key_error("rouns", "training", ["rounds"])) == (
        "unknown key 'rouns' in training; did you mean 'rounds'? allowed: rounds"
    )
    assert str(unknown_key_error("x", "", ["rounds"])) == "unknown key 'x'; allowed: rounds"


def test_hint_is_empty_if_no_name_is_near():
    assert suggest_name("mnits", ["mnist", "digits"]) == "did you mean 'mnist'? "
    assert suggest_name("x", ["mnist", "digits"]) == ""
    assert suggest_name("lr", ["seed"], nested_keys={"learning_rate": "training.learning_rate"}) == (
        "did you mean 'training.learning_rate'? "
    )
    assert suggest_name("acuracy", ["ari", "pa"], {"accuracy": "pa"}) == "did you mean 'pa'? "
