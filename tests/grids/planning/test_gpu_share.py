"""The GPU share of an actor, worked out by hand from what a stand-in for the GPU measures."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.clients.placement import Node, Placement, Request, plan
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.grids.planning.gpu_probe import Probed, Work
from fedgrid.grids.planning.gpu_share import with_measured_share, with_share_here
from fedgrid.grids.ray_cluster.gpus import Gpu

NOWHERE = Path("nowhere")
GPUS = [Node(8, 0), Node(16, 2)]
MB, GB = 10**6, 10**9


def run(**values):
    return complete({"algorithm": "fedavg", **values}, NOWHERE)


SMALL, LARGE = run(), run(model="tinyvgg")


class Measured:
    """A GPU of 8 GB on which a context takes 0.5 GB."""

    def __init__(self, **reserved):
        self.reserved, self.seen = {"digitnet": 100 * MB, "tinyvgg": 1500 * MB, **reserved}, []

    def __call__(self, crowds):
        models = [crowd.workload.model for crowd in crowds]
        self.seen += models
        reserved = [self.reserved[model] for model in models]
        works = tuple(None if size is None else Work(size, 0.0) for size in reserved)
        return Probed(8 * GB, 500 * MB, works)


def share(runs, request=Request(), nodes=GPUS, measured=None, gpus=()):  # noqa: B008
    return with_measured_share(runs, nodes, request, NOWHERE, measured or Measured(), gpus)


def test_share_holds_context_training_and_images_and_a_quarter_more():
    """(0.5 + 0.1 GB + 0.2 MB of digits) x 1.25 of 8 GB are 9.4 %, (0.5 + 1.5) x 1.25 are 31.25 %."""
    assert share([SMALL]).least_gpu_share == 0.1
    assert share([SMALL, LARGE]).least_gpu_share == 0.32


def test_share_is_at_least_a_twentieth():
    """0.06 GB and the context: a 16 GB GPU would hold more than twenty."""
    assert (
        share([SMALL], measured=lambda crowds: Probed(16 * GB, 0, (Work(60 * MB, 0.0),))).least_gpu_share
        == 0.05
    )


def test_runs_that_train_alike_are_measured_once():
    measured = Measured()
    share([SMALL, run(seed=1), run(training={"learning_rate": 0.2}), LARGE], measured=measured)
    assert measured.seen == ["digitnet", "tinyvgg"]


def test_share_of_the_user_that_is_large_enough_stays():
    request = Request(clients_per_actor=5, gpus_per_client=0.4)
    assert share([LARGE], request) == request


def test_share_of_the_user_that_is_too_small_is_refused_with_one_that_would_do():
    with pytest.raises(ConfigError) as refused:
        share([SMALL, LARGE], Request(gpus_per_client=0.2))
    message = str(refused.value)
    assert message.startswith("--gpus-per-actor 0.2 is 1.60 GB, but tinyvgg with batches of 32 takes 2.50 GB")
    assert "context 0.50 GB, training 1.50 GB" in message
    assert "--gpus-per-actor 0.32 would do" in message
    assert "\n" not in message
    assert share([SMALL, LARGE], Request(gpus_per_client=0.32)).gpus_per_client == 0.32


@pytest.mark.parametrize("reserved", [None, 6 * GB])
def test_run_that_fits_on_no_gpu_is_refused(reserved):
    large = run(model="tinyvgg", training={"stacked": 15})
    with pytest.raises(ConfigError, match="15 clients stacked.* smaller training.batch_size") as refused:
        share([SMALL, large], measured=Measured(tinyvgg=reserved))
    assert "--gpus-per-actor 0" in str(refused.value)


@pytest.mark.parametrize(
    ("runs", "nodes", "request_"),
    [([SMALL], [Node(8, 0)], Request()), ([SMALL], GPUS, Request(gpus_per_client=0)), ([], GPUS, Request())],
    ids=["no GPU", "CPU wanted", "nothing to run"],
)
def test_nothing_is_measured_where_no_gpu_would_be_used(runs, nodes, request_):
    def never(crowds):
        raise AssertionError("measured")

    assert with_measured_share(runs, nodes, request_, NOWHERE, never) == request_


class TestFreeMemory:
    """A GPU of 8 GB of which another process has half, beside an empty one of 24 GB."""

    UNEQUAL = (Gpu("GPU 0", 24 * GB, 24 * GB), Gpu("GPU 1 of node n2", 4 * GB, 8 * GB))

    def test_share_is_one_of_what_is_free_on_the_fullest_gpu(self):
        """0.75 GB of 4 GB are 18.8 %: five actors, though the measured GPU of 8 GB would hold ten."""
        request = share([SMALL], gpus=self.UNEQUAL)
        assert request.least_gpu_share == 0.19
        assert plan(15, GPUS, request) == Placement(8, 1.0, 0.25)

    def test_run_that_does_not_fit_there_is_refused_with_the_name_of_the_gpu(self):
        with pytest.raises(ConfigError, match="needs|takes") as refused:
            share([LARGE], measured=Measured(tinyvgg=3 * GB), gpus=self.UNEQUAL)
        assert "takes 4.38 GB of the 4.00 GB that are free on GPU 1 of node n2" in str(refused.value)

    def test_share_of_the_user_is_one_of_what_is_free(self):
        with pytest.raises(ConfigError, match="--gpus-per-actor 0.5 is 2.00 GB, but .* 0.63 would do"):
            share([LARGE], Request(gpus_per_client=0.5), gpus=self.UNEQUAL)

    @pytest.mark.parametrize("given", [None, 0.7])
    def test_what_is_free_there_is_what_shares_are_of(self, given):
        """Torch holds actors to it, also to a share of the user's; without opened GPUs it is not known."""
        assert share([LARGE], Request(gpus_per_client=given), gpus=self.UNEQUAL).gpu_room == 4 * GB
        assert share([LARGE], Request(gpus_per_client=given)).gpu_room == 0

    def test_failed_measurement_leaves_as_many_actors_as_free_memory_allows(self):
        """A twentieth of the GPU is a tenth of its free half."""

        def fail(crowds):
            raise RunError("measuring failed")

        assert share([SMALL], measured=fail, gpus=self.UNEQUAL).least_gpu_share == 0.1


@pytest.mark.parametrize("given", [None, 0.2])
def test_failed_measurement_is_told_and_the_request_stays(given, capsys):
    def fail(crowds):
        raise RunError("no GPU was free to measure the memory that a client takes")

    assert share([SMALL], Request(gpus_per_client=given), measured=fail) == Request(gpus_per_client=given)
    told = capsys.readouterr().err
    assert "no GPU was free" in told
    assert "nvidia-smi" in told


def test_a_plan_on_this_machine_measures_only_a_gpu_that_torch_can_use(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert with_share_here([SMALL], GPUS, Request(), NOWHERE) == Request()
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("fedgrid.grids.planning.gpu_share.probe", Measured())
    monkeypatch.setattr("fedgrid.grids.planning.gpu_share.open_here", lambda request: ())
    assert with_share_here([LARGE], GPUS, Request(), NOWHERE).least_gpu_share == 0.32


def test_a_plan_on_this_machine_opens_its_gpus_if_something_is_to_run(monkeypatch):
    asked = Request(gpus_per_client=0.4)

    def refuse(request):
        assert request is asked
        raise ConfigError("GPU 0 cannot be used")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("fedgrid.grids.planning.gpu_share.open_here", refuse)
    assert with_share_here([], GPUS, asked, NOWHERE) == asked
    with pytest.raises(ConfigError, match="GPU 0"):
        with_share_here([SMALL], GPUS, asked, NOWHERE)
