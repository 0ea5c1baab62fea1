"""`--gpus-per-actor auto`: what is decided, worked out by hand from what scripts measure."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import Node, Request
from fedgrid.grids.planning.gpu_probe import Probed, Work
from fedgrid.grids.planning.stacking import OnGpu, decide, largest_stack
from fedgrid.grids.presets.grid import Stacking
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.ray_cluster.gpus import Gpu as Opened

NOWHERE = Path("nowhere")
ONE_GPU = [Node(32, 1)]
MB, GB = 10**6, 10**9


def loader(**options):
    """Return what loads a grid of 15 clients on digits, with changes."""
    axes = {"clients": 15, "algorithm": "fedavg", **options}
    return lambda decided: load_grid(None, axes, [], NOWHERE, decided=decided)


class Gpu:
    """A GPU of 8 GB: a context takes 0.5 GB, and all processes together train this many images/s."""

    def __init__(self, alone=1000.0, stacked=3000.0, per_client=100 * MB, whole=8 * GB):
        self.speed, self.per_client, self.whole = {False: alone, True: stacked}, per_client, whole
        self.crowds, self.measured, self.free = [], [], ()

    def probe(self, crowds):
        timed = [crowd for crowd in crowds if crowd.seconds]
        self.crowds += timed
        if not timed:
            self.measured += [crowd.workload.training.stacked for crowd in crowds]
        return Probed(self.whole, GB // 2, tuple(map(self.work, crowds)))

    def work(self, crowd):
        stack = crowd.workload.training.stacked
        reserved, speed = stack * self.per_client, self.speed[stack > 1] if crowd.seconds else 0.0
        speed = speed(crowd) if callable(speed) else speed
        return None if reserved > self.whole or speed is None else Work(reserved, speed)

    @property
    def tools(self):
        return OnGpu(lambda request: self.free, self.probe)


def decided(gpu, load=None, nodes=ONE_GPU, request=Request(), **options):  # noqa: B008
    load = load or loader(**options)
    return decide(load(()), load, nodes, NOWHERE, gpu.tools, request, by_shared_prefix=True)


def test_stacks_are_taken_where_they_are_faster_and_the_line_has_what_was_measured():
    gpu = Gpu(alone=1000, stacked=3000)
    found = decided(gpu)
    assert found.clients == 15
    assert found.changes == ("training.stacked=15",)
    for part in ("3.00 times", "digitnet 8x8 3,000 images/s in 1 process, 1,000 in 8", "training.stacked=15"):
        assert part in str(found)
    assert "\n" not in str(found)


def test_processes_are_those_of_the_plan():
    """(0.5 + 0.1 GB) x 1.25 of 8 GB are 0.1: ten actors on the GPU, so eight of two clients; or one of 15."""
    gpu = Gpu()
    decided(gpu)
    assert [(crowd.processes, crowd.workload.training.stacked) for crowd in gpu.crowds] == [(8, 1), (1, 15)]


def test_runs_side_by_side_count():
    """Five runs on two GPUs: the clients of 2.5 on each, or 2.5 stacks."""
    gpu = Gpu(whole=80 * GB)
    decided(gpu, nodes=[Node(64, 2)], seed=[0, 1, 2, 3, 4])
    alone, stacked = gpu.crowds
    assert alone.workload.training.stacked == 1
    assert stacked.processes == 3


@pytest.mark.parametrize(("stacked", "clients"), [(1101, 15), (1099, 1), (400, 1)])
def test_stacks_must_be_a_tenth_faster(stacked, clients):
    found = decided(Gpu(alone=1000, stacked=stacked))
    assert found.clients == clients
    assert f"{stacked / 1000:.2f} times as fast" in found.why


def test_kinds_of_runs_count_by_what_they_train():
    """Runs that train the same images at 1000 and 100 images/s, stacked 500 and 400: 11 against 4.5 units."""
    of_batch = {32: (1000.0, 500.0), 64: (100.0, 400.0)}
    gpu = Gpu(
        alone=lambda crowd: of_batch[crowd.workload.training.batch_size][0],
        stacked=lambda crowd: of_batch[crowd.workload.training.batch_size][1],
    )
    found = decided(gpu, **{"training.batch_size": [32, 64]})
    assert "2.44 times" in found.why
    assert found.why.count("images/s") == 2


def test_stack_that_does_not_fit_is_halved():
    """15 x 0.6 GB are more than the GPU has, 7 x 0.6 + 0.5 GB and a quarter are less."""
    gpu = Gpu(per_client=600 * MB)
    assert decided(gpu).clients == 7
    assert gpu.measured == [1, 15, 7]


def test_stack_must_fit_into_what_is_free():
    """15 x 0.1 + 0.5 GB and a quarter more are 2.5 GB."""
    gpu = Gpu(per_client=100 * MB)
    gpu.free = (Opened("GPU 0", 26 * GB // 10, 8 * GB),)
    assert decided(gpu).clients == 15
    gpu.free = (Opened("GPU 0", 24 * GB // 10, 8 * GB),)
    assert decided(gpu).clients == 7


def test_not_even_two_stacked_clients_fit():
    found = decided(Gpu(per_client=4 * GB))
    assert found.clients == 1
    assert "not even two stacked clients fit" in found.why


def test_run_that_fits_on_no_gpu_is_refused_as_at_a_launch():
    with pytest.raises(ConfigError, match="smaller training.batch_size"):
        decided(Gpu(per_client=9 * GB))


@pytest.mark.parametrize(
    ("alone", "stacked", "clients", "why"),
    [
        (1000.0, None, 1, "stacks of 15 clients run out of the GPU's memory"),
        (None, 1000.0, 15, "8 processes of one client each run out of the GPU's memory"),
    ],
)
def test_way_that_runs_out_of_memory_is_not_taken(alone, stacked, clients, why):
    found = decided(Gpu(alone, stacked))
    assert found.clients == clients
    assert why in found.why


def test_failed_timing_changes_nothing_and_is_told():
    def fail(crowd):
        raise RunError("no GPU was free to time clients on")

    found = decided(Gpu(alone=fail))
    assert found.clients == 1
    assert "no GPU was free" in found.why


@pytest.mark.parametrize("algorithm", ["fedprox", ["fedavg", "scaffold"]])
def test_clients_with_a_rule_of_their_own_are_not_stacked(algorithm):
    gpu = Gpu()
    found = decided(gpu, algorithm=algorithm)
    assert found.clients == 1
    assert "changes how clients train" in found.why
    assert "another algorithm" not in found.why
    assert gpu.measured == []


def test_nothing_is_measured_without_a_gpu():
    gpu = Gpu()
    assert decided(gpu, nodes=[Node(8, 0)]) == Stacking(1, "there is no GPU")
    assert gpu.measured == []


@pytest.mark.parametrize(
    ("clients", "runs", "gpus", "expected"),
    [(15, 1, 1, 15), (15, 1, 4, 4), (15, 2, 4, 8), (15, 8, 4, 15), (3, 1, 8, 1)],
    ids=["one run", "four GPUs", "two runs on four", "more runs than GPUs", "more GPUs than clients"],
)
def test_stacks_spread_the_clients_of_all_runs_over_the_gpus(clients, runs, gpus, expected):
    grid = loader(clients=clients, seed=list(range(runs)))(())
    assert largest_stack(grid.runs, [Node(64, gpus)], by_shared_prefix=True) == expected


def test_runs_of_unequal_numbers_of_clients_have_the_stack_of_the_smallest():
    grid = loader(clients=[15, 30])(())
    assert largest_stack(grid.runs, ONE_GPU, by_shared_prefix=True) == 15


def test_as_many_gpus_as_clients_leave_nothing_to_stack():
    found = decided(Gpu(), clients=3, nodes=[Node(32, 8)])
    assert found == Stacking(1, "each client has a GPU of its own")
