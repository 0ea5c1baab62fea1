"""How a grid is run; none of it changes a number."""

from dataclasses import dataclass
from pathlib import Path

from engine.resources import Request
from engine.round_store import Options


@dataclass(frozen=True)
class How:
    """What a user may say about how a grid is run."""

    data_dir: Path
    request: Request = Request()
    retries: int = 2
    """How often a run that fails is tried again."""
    in_process: bool = False
    fresh: bool = False
    """Forget what is kept of the runs, and of their rounds, first."""
    as_json: bool = False
    store: Options | None = Options()
    """How rounds of other runs are taken from the round store; None: not at all."""
