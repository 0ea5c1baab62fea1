"""A pool knows what machines its actors are on, and does not mix them silently."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients import ray_pool
from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.clients.ray_pool import RayPool

OLD, NEW = {"processor": "AVX2"}, {"processor": "AVX512"}


@pytest.fixture
def pool_on(monkeypatch):
    """Return a function that makes a pool without Ray, whose actors start on these machines in turn."""

    def make(*machines):
        remaining = iter(machines)

        def start(self, index):
            machine = next(remaining)
            return SimpleNamespace(machine=SimpleNamespace(remote=lambda: machine))

        monkeypatch.setattr(RayPool, "_start_actor", start)
        stub = SimpleNamespace(
            get=lambda given, timeout: list(given) if isinstance(given, list) else given,
            kill=lambda actor: None,
        )
        monkeypatch.setattr(ray_pool, "ray", stub)
        return RayPool(None, Placement(2, 1.0, 0.0))

    return make


def test_machines_that_are_alike_count_once(pool_on):
    assert pool_on(OLD, OLD).machines() == [OLD]
    assert pool_on(NEW, OLD).machines() == [OLD, NEW]


def test_actor_that_starts_again_on_the_same_kind_of_machine_goes_on(pool_on):
    pool = pool_on(OLD, OLD, OLD)
    pool.machines()
    pool._replace_actor(1, "killed", "round 3")
    assert pool.machines() == [OLD]


def test_actor_that_starts_again_on_another_kind_of_machine_ends_the_run(pool_on):
    pool = pool_on(OLD, OLD, NEW)
    pool.machines()
    pool._home = {0: 0, 1: 1}
    with pytest.raises(RunError, match="client 1, round 3: .*AVX512.* instead of .*AVX2"):
        pool._replace_actor(1, "killed", "round 3")
    assert pool.machines() == [OLD, NEW]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_other_instructions_for_bfloat16_end_only_a_run_in_bfloat16(pool_on, monkeypatch, precision):
    amx, none = ({**NEW, "bfloat16": each} for each in ("amx_bf16", "emulated"))
    pool = pool_on(amx, amx, none)
    pool.machines()
    pool._home = {0: 0}
    pool._setup = SimpleNamespace(training=SimpleNamespace(precision=precision))
    monkeypatch.setattr(pool, "_prepare_actor", lambda index: None)
    ends = pytest.raises(RunError, match="emulated.* instead of .*amx_bf16")
    with ends if precision == "bfloat16" else nullcontext():
        pool._replace_actor(0, "killed", "round 3")
    assert pool.machines() == [amx, none]
