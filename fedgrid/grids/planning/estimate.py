"""What the runs of a grid need: hours by data set, and how many runs fit on the nodes at once."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings, kind_of
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.encoders.encoder import model_of
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.placement import Node, Placement, Request, at_once, plan
from fedgrid.engine.runtime.data.datasets import find, is_here
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.planning.calibrate import Speed, run_seconds
from fedgrid.grids.planning.images import expected_images
from fedgrid.grids.planning.workload import SAME, Workload, workload_of
from fedgrid.grids.ray_cluster.cluster import least_stacked, num_to_place
from fedgrid.grids.results.times import times_of

RoundsLeft = Sequence[tuple[RunConfig, int]]
"""Each run with its number of rounds still to compute, 0 if it is finished."""


@dataclass(frozen=True)
class EncoderPlan:
    """The training of one encoder."""

    workload: Workload
    public_images: float
    """How many images the server passes through it, counted in every epoch."""
    federated_images: float
    """How many its clients do, all together."""
    turns: float
    """How often a client trains."""
    public: str = ""
    """The data set that the server trains it on, if that is one of its own."""

    def seconds(self, speeds: Mapping[Workload, Speed], workers: int) -> float:
        """Return how long it takes: the server's training on one core or GPU, the clients' on this many."""
        speed = speeds[self.workload]
        of_clients = self.turns * speed.turn + self.federated_images * speed.train
        return self.public_images * speed.train + of_clients / workers


def encoder_plans(left: RoundsLeft, dataset: Dataset, data_dir: Path) -> list[EncoderPlan]:
    """Return the encoders of those runs of a data set that have not begun.

    A public one is the same for all of them, a federated one for those that share a scenario and seed.
    """
    plans = {}
    for run, rounds in left:
        if rounds < run.training.rounds:
            continue
        message = algorithm_of(run).message()
        settings = None if message is None else message.encoder
        if settings is None or kind_of(settings, dataset.inputs.shape) in ("pca", "pixels"):
            continue
        key = settings.model_dump_json(), run.shared_prefix if settings.federated else ""
        plans[key] = _plan(run, settings, dataset, data_dir)
    return list(plans.values())


def _plan(run: RunConfig, settings: EncoderSettings, dataset: Dataset, data_dir: Path) -> EncoderPlan:
    public, name = 0, ""
    if settings.public == REFERENCE:
        public = run.split.reference_images or 0
    elif settings.public is not None:
        name = settings.public
        public = find(name, data_dir).pool_size
    rounds = settings.federated * settings.participation
    model = model_of(kind_of(settings, dataset.inputs.shape))
    training = LocalTraining(batch_size=settings.batch_size, optimizer="adam", **SAME)
    return EncoderPlan(
        Workload(model, dataset.inputs, dataset.num_classes, training),
        float(public * settings.epochs),
        rounds * settings.local_epochs * expected_images(run, dataset).train,
        rounds * run.clients,
        name,
    )


def workloads_of(left: RoundsLeft, data_dir: Path) -> list[Workload]:
    """Return what unfinished runs train: their models and encoders, each once."""
    workloads: dict[Workload, None] = {}
    for run, rounds in left:
        if not rounds:
            continue
        dataset = find(run.dataset, data_dir)
        encoders = encoder_plans([(run, rounds)], dataset, data_dir)
        workloads |= dict.fromkeys((workload_of(run, data_dir), *(plan.workload for plan in encoders)))
    return list(workloads)


@dataclass(frozen=True)
class DatasetRow:
    """The runs of a grid on one data set."""

    dataset: str
    runs: int
    shared_prefixes: int
    """Groups of these runs that begin with the same rounds."""
    finished: int
    rounds_left: int
    clients: tuple[int, ...]
    download_mb: int
    """Size of the images that the remaining runs need and that are not here yet."""
    hours: float
    """A rough estimate, with all nodes at work on these runs and without a round cache."""
    encoders: int = 0
    """How many are trained before the first rounds, which is part of `hours`."""


@dataclass(frozen=True)
class Capacity:
    """How runs of a given number of clients fit on the nodes."""

    clients: int
    placement: Placement
    at_once: int
    """How many such runs the nodes hold at the same time, if that many are waiting."""
    workers: int
    """Cores, or GPUs, that these runs keep busy."""

    @property
    def reserves(self) -> str:
        """The resources of a run, in words."""
        actors = self.placement.num_actors
        resources = f"{self.placement.cpus_per_actor:g} CPU"
        if self.placement.gpus_per_actor:
            resources += f", {self.placement.gpus_per_actor:g} GPU"
        if self.placement.memory_per_actor:
            resources += f", {self.placement.memory_per_actor / 1e9:.1f} GB main memory"
        if self.placement.in_server:
            return f"server with {self.clients} clients, {self.placement.bundles()[0]['CPU']:g} CPU"
        if actors == self.clients:
            return f"server + {actors} clients x {resources}"
        fewest, most = self.clients // actors, -(-self.clients // actors)
        hosted = f"{most}" if most == fewest else f"{fewest} or {most}"
        if actors == 1:
            return f"server + 1 actor of {hosted} clients, {resources}"
        return f"server + {actors} actors of {hosted} clients, {resources} each"


def capacities_of(
    left: RoundsLeft, nodes: Sequence[Node], request: Request, *, by_shared_prefix: bool = False
) -> list[Capacity]:
    """Return how the runs fit, one entry a number of clients; `by_shared_prefix`: see `num_to_place`.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
    """
    waiting = max(1, num_to_place([run for run, rounds in left if rounds], by_shared_prefix=by_shared_prefix))
    capacities = []
    stacks = least_stacked(run for run, _ in left)
    for clients in sorted(stacks):
        placement = plan(clients, nodes, request, waiting, stacks[clients])
        runs = at_once(placement, nodes)
        # Actors that share a GPU, or a core, take turns on it.
        has = sum(int(node.gpus if placement.gpus_per_actor else node.cpus) for node in nodes)
        workers = min(max(1, has), min(runs, waiting) * placement.num_actors)
        capacities.append(Capacity(clients, placement, runs, workers))
    return capacities


def dataset_rows(
    left: RoundsLeft, data_dir: Path, speeds: Mapping[Workload, Speed], capacities: Sequence[Capacity]
) -> list[DatasetRow]:
    """Return a row a data set, in the order of the runs; `speeds` has every unfinished workload."""
    workers = {capacity.clients: capacity.workers for capacity in capacities}
    actors = {capacity.clients: capacity.placement.num_actors for capacity in capacities}
    rows = []
    for name in dict.fromkeys(run.dataset for run, _ in left):
        dataset = find(name, data_dir)
        runs = [run for run, _ in left if run.dataset == name]
        waiting = [(run, rounds) for run, rounds in left if run.dataset == name and rounds]
        shares = (
            run_seconds(
                run,
                expected_images(run, dataset),
                speeds[workload_of(run, data_dir)],
                rounds,
                actors[run.clients],
            )
            / workers[run.clients]
            for run, rounds in waiting
        )
        encoders = encoder_plans(waiting, dataset, data_dir)
        needed = {name, *(plan.public for plan in encoders if plan.public)} if waiting else set()
        away = [dataset_name for dataset_name in needed if not is_here(dataset_name, data_dir)]
        encoding = sum(plan.seconds(speeds, max(workers.values())) for plan in encoders)
        rows.append(
            DatasetRow(
                dataset=name,
                runs=len(runs),
                shared_prefixes=len({run.shared_prefix for run in runs}),
                finished=len(runs) - len(waiting),
                rounds_left=sum(rounds for _, rounds in waiting),
                clients=tuple(sorted({run.clients for run in runs})),
                download_mb=sum(find(dataset_name, data_dir).download_mb for dataset_name in away),
                hours=(encoding + sum(shares)) / 3600,
                encoders=len(encoders),
            )
        )
    return rows


@dataclass(frozen=True)
class Experience:
    """What the recorded rounds of some runs say."""

    runs: int = 0
    factor: float = 1.0
    """How many times as long as estimated they took, without the round cache."""


def experience(
    left: RoundsLeft,
    data_dir: Path,
    storage: Path,
    speeds: Mapping[Workload, Speed],
    capacities: Sequence[Capacity],
) -> Experience:
    """Compare recorded rounds with their estimate; `speeds` has every unfinished workload.

    Runs of other workloads do not count. The placement of a run is taken for the one that it would have now.
    """
    places = {capacity.clients: capacity for capacity in capacities}
    runs, took, estimated = 0, 0.0, 0.0
    for run, rounds in left:
        dataset = find(run.dataset, data_dir)
        speed = speeds.get(workload_of(run, data_dir))
        if speed is None or rounds == run.training.rounds:
            continue
        with suppress(DamagedFile):  # The launch says so.
            times, place = times_of(folder_of(storage, run)), places[run.clients]
            actors, all_rounds = place.placement.num_actors, run.training.rounds
            whole = run_seconds(run, expected_images(run, dataset), speed, all_rounds, actors)
            runs += times.rounds > 0
            took += times.uncached_seconds
            estimated += whole * times.rounds / all_rounds / min(actors, place.workers)
    return Experience(runs, took / estimated) if took else Experience()
