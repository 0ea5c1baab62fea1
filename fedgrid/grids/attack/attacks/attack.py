"""One attack on one run, by its kind."""

from collections.abc import Sequence
from typing import Any

from fedgrid.engine.federation.encoders.encoder import Encoder
from fedgrid.grids.attack.attacks.classes import classes
from fedgrid.grids.attack.attacks.membership import membership
from fedgrid.grids.attack.attacks.observed import Observed
from fedgrid.grids.attack.attacks.reconstruction import Picture, reconstruction
from fedgrid.grids.attack.attacks.settings import Attacking


def attacked(
    observed: Observed, settings: Attacking, encoder: Encoder | None
) -> tuple[list[dict[str, Any]], Sequence[Picture]]:
    """Return what an attack has found, a row a client, model or class, and its pictures.

    `encoder` is what made the run's messages, for reconstruction. To be called with one thread
    (`fixed_numerics`), on whose number the last bits depend.

    Raises:
        ConfigError: there is nothing that the attack can be made on.
    """
    match settings.kind:
        case "membership":
            return membership(observed), ()
        case "class":
            return classes(observed), ()
        case "reconstruction":
            return reconstruction(observed, settings, encoder)
