"""Every random number of a run comes from a generator of its own; none depends on what was drawn before."""

import subprocess
import sys

import numpy as np
import pytest

from fedgrid.engine.federation.seeds import derive_root_seed, make_generator


def draws(seed=0, purpose="batches", **place):
    return make_generator(seed, purpose, **place).integers(2**63, size=4).tolist()


def test_same_arguments_give_the_same_numbers():
    assert draws(client=2, round_index=5) == draws(client=2, round_index=5)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1, "client": 2, "round_index": 5},
        {"purpose": "split", "client": 2, "round_index": 5},
        {"client": 3, "round_index": 5},
        {"client": 2, "round_index": 6},
        {"client": 5, "round_index": 2},
        {"client": 2},
        {"round_index": 5},
        {},
    ],
)
def test_any_other_argument_gives_other_numbers(other):
    assert draws(**other) != draws(client=2, round_index=5)


def test_digits_moved_between_arguments_give_other_numbers():
    """Written one after the other without a mark between them, 1 and 12 would be 11 and 2."""
    assert draws(client=1, round_index=12) != draws(client=11, round_index=2)
    assert draws(seed=1, client=12) != draws(seed=11, client=2)


def test_scenarios_with_the_same_seed_draw_independently():
    assert draws(derive_root_seed("mnist-15-overlapping-balanced", 0)) != draws(
        derive_root_seed("fmnist-15-overlapping-balanced", 0)
    )


def test_digits_moved_from_scenario_to_seed_give_other_numbers():
    assert derive_root_seed("folder_a-1", 2) != derive_root_seed("folder_a-", 12)
    assert derive_root_seed("folder_1/1", 2) != derive_root_seed("folder_1", 2)


def test_root_seed_is_the_first_half_of_a_sha256():
    """`printf 'scenario digits-15-nonoverlapping-balanced/0' | sha256sum` starts with these digits."""
    assert (
        f"{derive_root_seed('digits-15-nonoverlapping-balanced', 0):032x}"
        == "4b55506254ebbcf158d5c955d83e098e"
    )


def test_generators_are_independent():
    first, second = make_generator(0, "batches", client=0), make_generator(0, "batches", client=1)
    first.random(1000)
    assert second.integers(2**63, size=4).tolist() == draws(client=1)


def test_the_global_generator_is_neither_read_nor_written():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()
    one = draws()
    assert np.random.get_state()[1].tolist() == before
    np.random.seed(2)  # noqa: NPY002
    assert draws() == one


def test_another_process_draws_the_same_numbers():
    """Python salts `hash` anew in every process; a seed made of it would be another one in every actor."""
    program = (
        "from fedgrid.engine.federation.seeds import make_generator\n"
        "print(make_generator(7, 'batches', client=1).integers(2**63))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert int(printed) == make_generator(7, "batches", client=1).integers(2**63)
