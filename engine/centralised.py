"""Centralised training: a data set's model is trained on the whole pool, as by a single client.

An epoch is a round with one local epoch of that client, run by the same code; the optimizer's state is kept
from epoch to epoch. Each epoch records the update norms that Sattler's test would use, and the difference of
L1 norms from which the OCFL authors derived their epsilons.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.contract.updates import Updates, Vector
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.clients.messages import ClientData, Reply, Setup, TrainTask
from fedgrid.engine.clients.pool import InProcessPool, Pool
from fedgrid.engine.configuration.complete import complete as complete_run
from fedgrid.engine.configuration.run_config import PLUGINS, Digest
from fedgrid.engine.data.datasets import find
from fedgrid.engine.data.identity import load_known
from fedgrid.engine.data.pixel_statistics import statistics_for
from fedgrid.engine.data.resizing import short_name
from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.format import FORMAT
from fedgrid.engine.plugins import active
from fedgrid.engine.seeds import root_seed
from fedgrid.engine.training.confusion import scores
from fedgrid.engine.training.settings import Training

EPOCHS = pa.schema(
    {
        "epoch": pa.int32(),
        "loss": pa.float64(),
        "accuracy": pa.float64(),
        "server_loss": pa.float64(),
        "server_accuracy": pa.float64(),
        "server_f1": pa.float64(),
        "update_l2": pa.float64(),
        "update_l2_state": pa.float64(),
        "weights_l1_change": pa.float64(),
    }
)
"""`loss` and `accuracy` are running means over the pool while the model changes. `server_*` are scores on the
server's test set after the epoch; F1 is the macro average. `update_l2` is the Euclidean norm of the epoch's
update over the parameters, `update_l2_state` over parameters and BatchNorm buffers. `weights_l1_change`, as
published, is the L1 norm of the parameters after the epoch minus that before; it can be negative."""

EVERYTHING = 0
"""The only client."""

OURS = {"local_epochs": 1, "keep_optimizer_state": True}
"""Fixed training settings: an epoch is one pass, and the optimizer's state is kept between epochs."""


class CentralisedConfig(Section):
    """Everything that the numbers of a centralised training depend on, except for the kind of device."""

    dataset: str
    model: str
    seed: Annotated[int, Field(ge=0, strict=True)]
    training: Training
    """`rounds` is the number of epochs."""
    plugin_digests: tuple[Digest, ...] = ()
    """Of the plugin that the model comes from, if any."""

    omitted_defaults = (PLUGINS,)

    @property
    def run_id(self) -> str:
        """Id of this configuration: twelve hexadecimal digits."""
        values = {"format": FORMAT, **self.model_dump(mode="json")}
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Readable name: `mnist-tinyvgg-s0`."""
        return f"{short_name(self.dataset)}-{self.model}-s{self.seed}"

    @property
    def root_seed(self) -> int:
        """Seed of initial weights and batches: one for each data set and seed."""
        return root_seed(f"{short_name(self.dataset)}-centralised", self.seed)


def complete(
    dataset: str,
    data_dir: Path,
    *,
    seed: int = 0,
    epochs: int | None = None,
    model: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> CentralisedConfig:
    """Return a full configuration; what is not given (None) is the data set's default.

    Args:
        dataset: name of the data set.
        data_dir: the data folder.
        seed: the seed.
        epochs: number of epochs.
        model: name of the model.
        training: training settings to change.

    Raises:
        ConfigError: a key, name or value that does not exist or has no effect here.
        DataError: a `folder:` or `npz:` data set that cannot be read.
    """
    changes = dict(training or {})
    for key in ("rounds", *OURS):
        if key in changes:
            raise ConfigError(
                f"training.{key} has no effect here: an epoch is one pass over the pool, --epochs sets their "
                "number, and the optimizer's state is kept; leave it out"
            )
    if "stacked" in changes:
        raise ConfigError("training.stacked has no effect here: there is a single client; leave it out")
    changes |= OURS | ({} if epochs is None else {"rounds": epochs})
    values = {"dataset": dataset, "seed": seed, "training": changes, "algorithm": "fedavg"}
    run = complete_run(values | ({} if model is None else {"model": model}), data_dir)
    return CentralisedConfig(
        dataset=run.dataset,
        model=run.model,
        seed=run.seed,
        training=run.training,
        plugin_digests=run.plugin_digests,
    )


def prepare(config: CentralisedConfig, data_dir: Path, device: str = "cpu") -> Pool:
    """Return a pool with the one client and all images on a torch device.

    Raises:
        ConfigError, DataError: the images cannot be loaded, or are too small for the model.
    """
    active.activate(config.plugin_digests)
    (pool_set, server_set), _ = load_known(config.dataset, data_dir)
    nothing = slice(0, 0)
    pool = InProcessPool(device)
    pool.prepare(
        Setup(
            model=config.model,
            num_classes=find(config.dataset, data_dir).num_classes,
            training=config.training.local,
            seed=config.root_seed,
            clients=(ClientData(EVERYTHING, pool_set, pool_set.take(nothing)),),
            server_set=server_set,
            server_parts={EVERYTHING: nothing},
            normalised_by=statistics_for(config.training, pool_set),
        )
    )
    return pool


def train(
    config: CentralisedConfig, data_dir: Path, pool: Pool, run_state: RunState | None
) -> Iterator[tuple[RunState, dict[str, Any]]]:
    """Continue from `run_state`, None at the start; yield the state and the record of each epoch.

    On the CPU the results are bit-identical, also after an interruption.

    Raises:
        RunError: the model cannot be trained with these settings, or its weights become NaN or infinite.
    """
    # Imported here because they import torch, which reading a finished training does not need.
    from fedgrid.engine.models.flat_vectors import layout_of
    from fedgrid.engine.models.initialisation import blank, initial_vector

    dataset = find(config.dataset, data_dir)
    model_arguments = config.model, dataset.shape, dataset.num_classes
    layout = layout_of(blank(*model_arguments))
    if run_state is None:
        start = initial_vector(*model_arguments, config.root_seed)
        run_state = RunState(0, State((start,), np.zeros(1, np.int64)))
    for epoch in range(run_state.rounds_done, config.training.rounds):
        before = run_state.state.models[0]
        task = TrainTask(Order(EVERYTHING, (0,)), epoch, evaluate=True, local_server=True)
        [reply] = pool.train([task], [before], run_state.memories)
        if not reply.report.usable:
            raise RunError(
                f"epoch {epoch + 1}: weights are NaN or infinite; lower training.learning_rate, which is "
                f"{config.training.learning_rate:g}"
            )
        after = before + reply.update
        memories = {EVERYTHING: reply.memory} if reply.memory else {}
        run_state = run_state.after_round(State((after,), run_state.state.labels_K), memories)
        yield run_state, _row(epoch + 1, reply, layout, before, after)


def _row(number: int, reply: Reply, layout: Layout, before: Vector, after: Vector) -> dict[str, Any]:
    assert reply.report.local_server is not None, "every epoch is tested"
    server = scores(reply.report.local_server)
    parameters = slice(layout.num_parameters)
    return {
        "epoch": number,
        "loss": reply.report.train_loss,
        "accuracy": reply.report.train_accuracy,
        "server_loss": server.loss,
        "server_accuracy": server.accuracy,
        "server_f1": server.f1_own,
        "update_l2": _norm(reply.update, layout, "parameters"),
        "update_l2_state": _norm(reply.update, layout, "state"),
        "weights_l1_change": _l1(after[parameters]) - _l1(before[parameters]),
    }


def _norm(update: Vector, layout: Layout, over: str) -> float:
    """Return the norm of the mean update in Sattler's test; here the mean is over one client."""
    return Updates({EVERYTHING: update}, layout, similarity_over=over).mean_norm


def _l1(weights: Vector) -> float:
    return float(np.abs(weights).sum(dtype=np.float64))
