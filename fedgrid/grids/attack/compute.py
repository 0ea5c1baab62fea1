"""The attack on one run: with what states and encoder, and whether the updates are those of the run."""

from collections.abc import Mapping
from math import isclose
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, parts_of
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.grids.analyses.analysis import Artifacts, Context, Job
from fedgrid.grids.display.plain import warn
from fedgrid.tracking import records

if TYPE_CHECKING:
    from fedgrid.engine.federation.encoders.encoder import Encoder

SAME_NORM = 1e-6
"""Relative difference of an update's norm up to which it is the run's own."""


def attack(job: Job, context: Context) -> Artifacts:
    """Attack one run; return the rows, and a picture of what was reconstructed.

    Raises:
        ConfigError: a state is not there: the run was imported, or its states were deleted.
        RunError: a state is damaged, or the encoder is gone.
    """
    # Importing torch takes seconds.
    from fedgrid.engine.federation.clients.process import fixed_numerics
    from fedgrid.grids.attack.attacks.attack import attacked
    from fedgrid.grids.attack.attacks.observed import observe

    config = job.config
    before, after = states(job, context)
    encoder = _encoder(job, context)
    observed = observe(config, before, after, context.data_dir, encoder)
    _check_norms(job, context, {client: sent.norm for client, sent in observed.sent.items()})
    with fixed_numerics(config.training.tf32):
        rows, found = attacked(observed, job.settings, encoder)
    pictures = {}
    if found:
        from fedgrid.grids.attack.pictures import drawn

        title = f"{config.scenario}, seed {config.seed}: {context.runs[config.run_id].algorithm}"
        pictures["-images.png"] = drawn(found, title, find(config.dataset, context.data_dir).class_names)
    return Artifacts({"rows": rows}, pictures)


def states(job: Job, context: Context) -> tuple[RunState | None, RunState]:
    """Return the run's states before and after the round; None before the first, or if it is gone.

    Raises:
        ConfigError, RunError: as `attack`.
    """
    last, kept = job.config.training.rounds, context.stored(job.config)
    for number in (job.round, *([last - 1] if job.round == last > 1 else [])):
        if number not in kept:
            known = f"it keeps {' and '.join(map(str, kept))}; " if kept else ""
            advice = "take one of them as --round" if kept else "run it again, or leave it out of the grid"
            raise ConfigError(
                f"it has no state after round {number}, so there is nothing to attack; {known}{advice}"
            )
    before = context.state(job, job.round - 1) if job.round - 1 in kept else None
    return before, context.state(job)


def _encoder(job: Job, context: Context) -> "Encoder | None":
    """Return the encoder that made a run's messages, None if it had none.

    Raises:
        RunError: the storage no longer has it.
    """
    from fedgrid.engine.runtime.encoders import store
    from fedgrid.engine.runtime.encoders.pretraining import ENCODER

    message = algorithm_of(job.config).message()
    if message is None or message.encoder is None:
        return None
    parts = parts_of(context.folder(job.config) / MADE_WITH)
    encoder_id = str(parts[0].made_with.get(ENCODER, "")) if parts else ""
    encoder = store.load_encoder(context.storage, encoder_id) if encoder_id else None
    if encoder is None:
        raise RunError(f"{job.config.name}: its encoder {encoder_id} is no longer in {context.storage}")
    return encoder


def _check_norms(job: Job, context: Context, norms: Mapping[int, float]) -> None:
    """Warn if the updates are not those of the run, as on another kind of machine."""
    columns = ["round", "client", "update_norm"]
    found = records.table(context.folder(job.config), "clients", columns=columns).to_pylist()
    recorded = {row["client"]: row["update_norm"] for row in found if row["round"] == job.round}
    other = [
        client
        for client, norm in norms.items()
        if not isclose(norm, recorded[client] or 0.0, rel_tol=SAME_NORM)
    ]
    if other:
        warn(
            f"{job.config.name}: this machine computes the updates of {len(other)} clients with other bits "
            "than the run did; the updates computed here are attacked"
        )
