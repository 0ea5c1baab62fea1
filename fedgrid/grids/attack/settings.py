"""Settings of an attack, whose digest names its results."""

from hashlib import sha256
from typing import Any, Literal, get_args

from pydantic import model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section

AttackKind = Literal["membership", "class", "reconstruction"]
ATTACK_KINDS: tuple[AttackKind, ...] = get_args(AttackKind)
CLIENTS, STEPS = 3, 300
"""Defaults of reconstruction."""
VERSION = 1
"""Version of the attacks' numbers: results of another version are computed again."""


class AttackSettings(Section):
    """Settings of an attack on a finished run. Its fields are the keys of the command line."""

    kind: AttackKind
    """What is inferred: who trained on an image, a majority class, or the images themselves."""
    clients: PositiveInt | None = None
    """Number of clients whose updates are inverted, the first ones; None means 3. For reconstruction only."""
    steps: PositiveInt | None = None
    """Steps of the optimizer for each client; None means 300. For reconstruction only."""
    round: PositiveInt | None = None
    """Round after which the run is attacked; None means its last one."""

    # Left out of the digest when it is None, so that the name of results does not depend on this key.
    omitted_defaults = ("round",)

    @model_validator(mode="before")
    @classmethod
    def _complete_reconstruction(cls, given: Any) -> Any:
        """Set the defaults of reconstruction, and refuse its settings for other kinds."""
        # None is the same as not given: both lead to the same digest.
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
        """Names of the results' files: the kind and twelve hexadecimal digits."""
        text = f"{VERSION} {self.model_dump_json()}"
        return f"{self.kind}-{sha256(text.encode()).hexdigest()[:12]}"
