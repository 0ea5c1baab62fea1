"""The attacks on runs, one after the other in this process or several at a time in processes of their own.

They need no Ray: each is of one run, on one thread, in seconds to a minute, and shares nothing with others.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from math import isclose
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from fedgrid.engine.configuration.algorithm_of import algorithm_of
from fedgrid.engine.data import own_images
from fedgrid.engine.errors import FedgridError, RunError, in_one_line
from fedgrid.engine.integrity.made_with import MADE_WITH, parts_of
from fedgrid.grids.attack.results import AttackFiles
from fedgrid.grids.display.plain import warn
from fedgrid.grids.results import kept_plugins

if TYPE_CHECKING:
    from fedgrid.engine.encoders.encoder import Encoder

SAME_NORM = 1e-6
"""Relative difference of an update's norm up to which it is the run's own."""
Todo = Sequence[tuple[AttackFiles, str]]
"""Attacks to make, each with the run's title."""


def attack_all(
    todo: Todo, grid: Path, data_dir: Path, processes: int
) -> Iterator[tuple[AttackFiles, str, str | None]]:
    """Attack runs and keep the results; yield each with its title and, if it failed, why, in one line.

    `grid` is the grid's folder, which has the plugins that its runs need.
    """
    if processes == 1 or len(todo) < 2:
        for files, title in todo:
            yield files, title, _tried(files, title, grid, data_dir)
        return
    # Torch's threads do not survive a fork.
    with ProcessPoolExecutor(min(processes, len(todo)), get_context("spawn")) as pool:
        futures = {pool.submit(_tried, *each, grid, data_dir): each for each in todo}
        for done in as_completed(futures):
            yield (*futures[done], done.result())


def _tried(files: AttackFiles, title: str, grid: Path, data_dir: Path) -> str | None:
    try:
        own_images.know_from(grid)
        kept_plugins.restore(grid, files.storage, [files.config])
        attack(files, title, data_dir)
    except FedgridError as error:
        return in_one_line(error)
    return None


def attack(files: AttackFiles, title: str, data_dir: Path) -> None:
    """Attack one run, and keep the results."""
    # Importing torch takes seconds.
    from fedgrid.engine.attacks.attack import attacked
    from fedgrid.engine.attacks.observed import observe
    from fedgrid.engine.clients.machine import fixed_numerics

    before, after = files.states()
    encoder = _encoder(files)
    observed = observe(files.config, before, after, data_dir, encoder)
    _check_norms(files, {client: sent.norm for client, sent in observed.sent.items()})
    with fixed_numerics(files.config.training.tf32):
        rows, found = attacked(observed, files.settings, encoder)
    pictures = {}
    if found:
        from fedgrid.grids.attack.pictures import drawn

        pictures["images"] = drawn(found, f"{files.config.scenario}, seed {files.config.seed}: {title}")
    files.write(rows, pictures)


def _encoder(files: AttackFiles) -> "Encoder | None":
    """Return the encoder that made a run's messages, None if it had none.

    Raises:
        RunError: the storage no longer has it.
    """
    from fedgrid.engine.before_training.pretraining import ENCODER
    from fedgrid.engine.encoders import store

    message = algorithm_of(files.config).message()
    if message is None or message.encoder is None:
        return None
    parts = parts_of(files.run / MADE_WITH)
    encoder_id = str(parts[0].made_with.get(ENCODER, "")) if parts else ""
    encoder = store.load_encoder(files.storage, encoder_id) if encoder_id else None
    if encoder is None:
        raise RunError(f"{files.config.name}: its encoder {encoder_id} is no longer in {files.storage}")
    return encoder


def _check_norms(files: AttackFiles, norms: Mapping[int, float]) -> None:
    """Warn if the updates are not those of the run, as on another kind of machine."""
    found = pq.read_table(files.run / "clients.parquet", columns=["round", "client", "update_norm"])
    recorded = {row["client"]: row["update_norm"] for row in found.to_pylist() if row["round"] == files.round}
    other = [
        client
        for client, norm in norms.items()
        if not isclose(norm, recorded[client] or 0.0, rel_tol=SAME_NORM)
    ]
    if other:
        warn(
            f"{files.config.name}: the updates of {len(other)} clients are not those of the run, whose bits "
            "this machine does not give; they are attacked as they are here"
        )
