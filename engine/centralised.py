"""Centralised training: a data set's model on its whole pool, as one client that holds everything.

An epoch is a round of one local epoch of that client, by the same code, with one optimizer from first to
last. Measured are the update norms that Sattler's test would see, and the difference of L1 norms from which
the OCFL authors took their epsilons.
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
from fedgrid.engine import run_config
from fedgrid.engine.checkpoint import Progress
from fedgrid.engine.clients.messages import ClientData, Reply, Setup, TrainTask
from fedgrid.engine.clients.pool import InProcessPool, Pool
from fedgrid.engine.data.datasets import find, load
from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.plugins import active
from fedgrid.engine.run_config import PLUGINS, Digest
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
"""`loss` and `accuracy` are running means over the pool, as the model changes; `server_` is the server's test
set after the epoch, F1 the macro average. `update_l2`: Euclidean norm of the epoch's update over the
parameters, `update_l2_state` over BatchNorm's buffers too. `weights_l1_change`, as published: L1 norm of the
parameters after the epoch minus that before it, which is no norm of an update and may be negative."""

EVERYTHING = 0
"""The one client."""

OURS = {"local_epochs": 1, "keep_optimizer_state": True}
"""An epoch is one pass, and the optimizer goes on from where the epoch before left it."""


class CentralisedConfig(Section):
    """Everything that the numbers of a centralised training depend on, but for the kind of device."""

    dataset: str
    model: str
    seed: Annotated[int, Field(ge=0, strict=True)]
    training: Training
    """Its `rounds` are the epochs."""
    plugin_digests: tuple[Digest, ...] = ()
    """Of the plugin that the model comes from, if it comes from one."""

    later = (PLUGINS,)

    @property
    def run_id(self) -> str:
        """Twelve hexadecimal digits that stand for this configuration."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """As people read it: `mnist-tinyvgg-s0`."""
        kind, _, path = self.dataset.partition(":")
        dataset = f"{kind}_{Path(path).stem}" if path else kind
        return f"{dataset}-{self.model}-s{self.seed}"


def complete(
    dataset: str,
    data_dir: Path,
    *,
    seed: int = 0,
    epochs: int | None = None,
    model: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> CentralisedConfig:
    """Fill in the data set's model and training; `training` changes that, None of the others is the default.

    Raises:
        ConfigError: for a key, name or value that does not exist or has no meaning here.
        DataError: for a `folder:` or `npz:` data set that cannot be read.
    """
    changes = dict(training or {})
    for key in ("rounds", *OURS):
        if key in changes:
            raise ConfigError(
                f"training.{key} has no meaning here: an epoch is one pass over the pool, --epochs says how "
                "many, and the optimizer lasts; leave it out"
            )
    changes |= OURS | ({} if epochs is None else {"rounds": epochs})
    values = {"dataset": dataset, "seed": seed, "training": changes, "algorithm": "bnc"}
    run = run_config.complete(values | ({} if model is None else {"model": model}), data_dir)
    return CentralisedConfig(
        dataset=run.dataset,
        model=run.model,
        seed=run.seed,
        training=run.training,
        plugin_digests=run.plugin_digests,
    )


def prepare(config: CentralisedConfig, data_dir: Path, device: str = "cpu") -> Pool:
    """Return the client, with all images, on a torch device.

    Raises:
        ConfigError, DataError: if the images are not to be had, or too small for the model.
    """
    active.activate(config.plugin_digests)
    pool_set, server_set = load(config.dataset, data_dir)
    nothing = slice(0, 0)
    pool = InProcessPool(device)
    pool.prepare(
        Setup(
            model=config.model,
            num_classes=find(config.dataset, data_dir).num_classes,
            training=config.training.local,
            seed=config.seed,
            clients=(ClientData(EVERYTHING, pool_set, pool_set.take(nothing)),),
            server_set=server_set,
            server_parts={EVERYTHING: nothing},
        )
    )
    return pool


def train(
    config: CentralisedConfig, data_dir: Path, pool: Pool, progress: Progress | None
) -> Iterator[tuple[Progress, dict[str, Any]]]:
    """Train on from `progress`, or from the start; yield the progress after each epoch, and its row.

    On the CPU the same bits every time, wherever it was interrupted.

    Raises:
        RunError: if the model cannot be trained like this, or its weights leave the finite numbers.
    """
    # They bring torch, which whoever only reads a finished training does without.
    from fedgrid.engine.models.flat_vectors import layout_of
    from fedgrid.engine.models.initialisation import blank, initial_vector

    dataset = find(config.dataset, data_dir)
    of_model = config.model, dataset.shape, dataset.num_classes
    layout = layout_of(blank(*of_model))
    if progress is None:
        start = initial_vector(*of_model, config.seed)
        progress = Progress(0, State((start,), np.zeros(1, np.int64)))
    for epoch in range(progress.rounds_done, config.training.rounds):
        before = progress.state.models[0]
        task = TrainTask(Order(EVERYTHING, (0,)), epoch, evaluate=True)
        [reply] = pool.train([task], [before], progress.memories)
        if not reply.report.usable:
            raise RunError(
                f"epoch {epoch + 1}: weights are NaN or infinite; lower training.learning_rate, which is "
                f"{config.training.learning_rate:g}"
            )
        after = before + reply.update
        memories = {EVERYTHING: reply.memory} if reply.memory else {}
        progress = progress.after_round(State((after,), progress.state.labels_K), memories)
        yield progress, _row(epoch + 1, reply, layout, before, after)


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
    """Return what Sattler's test takes for the norm of a mean update: here there is one client."""
    return Updates({EVERYTHING: update}, layout, similarity_over=over).mean_norm


def _l1(weights: Vector) -> float:
    return float(np.abs(weights).sum(dtype=np.float64))
