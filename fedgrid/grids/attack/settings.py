"""What an attack is asked to do; the hash of it names its results."""

from hashlib import sha256
from typing import Any, Literal, get_args

from pydantic import model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section

AttackKind = Literal["membership", "class", "reconstruction"]
ATTACK_KINDS: tuple[AttackKind, ...] = get_args(AttackKind)
CLIENTS, STEPS = 3, 300
"""Defaults of reconstruction."""
VERSION = 1
"""Of the attacks' numbers: results of another one are computed again."""


class Attacking(Section):
    """An attack on a finished run."""

    kind: AttackKind
    """What is learned: who trained on an image, a majority class, or the images themselves."""
    clients: PositiveInt | None = None
    """Of reconstruction: how many clients' updates are inverted, the first ones; None: 3."""
    steps: PositiveInt | None = None
    """Of reconstruction: steps of the optimizer for each client; None: 300."""
    round: PositiveInt | None = None
    """The round after which the run is attacked; None: its last one."""

    omitted_defaults = ("round",)

    @model_validator(mode="before")
    @classmethod
    def _of_reconstruction(cls, given: Any) -> Any:
        values = {key: value for key, value in given.items() if value is not None}
        kind = values.get("kind")
        if kind == "reconstruction":
            return {"clients": CLIENTS, "steps": STEPS, **values}
        for key in ("clients", "steps"):
            if key in values and kind in ATTACK_KINDS:
                raise ValueError(
                    f"{key}={values[key]} has no effect with kind={kind}, only with reconstruction"
                )
        return values

    @property
    def key(self) -> str:
        """Names the files of the results: the kind and twelve hexadecimal digits."""
        text = f"{VERSION} {self.model_dump_json()}"
        return f"{self.kind}-{sha256(text.encode()).hexdigest()[:12]}"
