"""The attack on one run: with what states and encoder, and whether the updates are those of the run."""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any

from fedgrid.grids.analyses.analysis import Artifacts, ConfigError, Context, Job, RunState
from fedgrid.grids.attack.pictures import Picture, draw_pictures
from fedgrid.grids.attack.settings import Attacking
from fedgrid.grids.display.plain import warn
from fedgrid.tracking import records

if TYPE_CHECKING:
    from fedgrid.engine.runtime.run.replay import Encoder, Observed

SAME_NORM = 1e-6
"""Relative difference of an update's norm up to which it is the run's own."""


def attack(job: Job, context: Context) -> Artifacts:
    """Attack one run; return the rows, and a picture of what was reconstructed.

    Raises:
        ConfigError: a state is not there: the run was imported, or its states were deleted.
        RunError: a state is damaged, or the encoder is gone.
    """
    # Importing torch takes seconds.
    from fedgrid.engine.runtime.run.pretraining import encoder_of
    from fedgrid.engine.runtime.run.replay import observe

    config = job.config
    before, after = states(job, context)
    encoder = encoder_of(config, context.folder(config), context.storage)
    observed = observe(config, before, after, context.data_dir, encoder)
    _check_norms(job, context, {client: sent.norm for client, sent in observed.sent.items()})
    with observed.numerics():
        rows, drawings = run_attack(observed, job.settings, encoder)
    pictures = {}
    if drawings:
        title = f"{config.scenario}, seed {config.seed}: {context.runs[config.run_id].algorithm}"
        pictures["-images.png"] = draw_pictures(drawings, title, context.dataset(config).class_names)
    return Artifacts({"rows": rows}, pictures)


def states(job: Job, context: Context) -> tuple[RunState | None, RunState]:
    """Return the run's states before and after the round; None before the first, or if it is gone.

    Raises:
        ConfigError, RunError: as `attack`.
    """
    last, stored = context.last_round(job.config), context.stored(job.config)
    for number in (job.round, *([last - 1] if job.round == last > 1 else [])):
        if number not in stored:
            words = f"it keeps {' and '.join(map(str, stored))}; " if stored else ""
            advice = "take one of them as --round" if stored else "run it again, or leave it out of the grid"
            raise ConfigError(
                f"it has no state after round {number}, so there is nothing to attack; {words}{advice}"
            )
    before = context.state(job, job.round - 1) if job.round - 1 in stored else None
    return before, context.state(job)


def run_attack(
    observed: "Observed", settings: Attacking, encoder: "Encoder | None"
) -> "tuple[list[dict[str, Any]], Sequence[Picture]]":
    """Return what an attack has found, a row a client, model or class, and its pictures.

    `encoder` is what made the run's messages, for reconstruction. To be called within `observed.numerics()`.

    Raises:
        ConfigError: there is nothing that the attack can be made on.
    """
    from fedgrid.grids.attack.classes import classes
    from fedgrid.grids.attack.membership import membership
    from fedgrid.grids.attack.reconstruction import LARGEST, reconstruction

    match settings.kind:
        case "membership":
            return membership(observed), ()
        case "class":
            return classes(observed), ()
        case "reconstruction":
            rows, pictures = reconstruction(observed, settings, encoder)
            if not rows and (size := observed.layout.num_parameters) > LARGEST:
                raise ConfigError(
                    f"{observed.config.model} has {size:,} parameters, and updates of up to {LARGEST:,} are "
                    "inverted"
                )
            return rows, pictures


def _check_norms(job: Job, context: Context, norms: Mapping[int, float]) -> None:
    """Warn if the updates are not those of the run, as on another kind of machine."""
    columns = ["round", "client", "update_norm"]
    rows = records.table(context.folder(job.config), "clients", columns=columns).to_pylist()
    recorded = {row["client"]: row["update_norm"] for row in rows if row["round"] == job.round}
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
