"""Keys of the round cache: digests of everything that a round's numbers depend on.

A digest is derived from a value's own fields, whatever they are; it never lists them. A type without a rule
is an error, not a guess.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from fedgrid.engine.federation.clients.messages import Memory, Setup, TrainTask
from fedgrid.engine.federation.data.images import ImageView
from fedgrid.engine.federation.errors import PLUGIN_MODULE
from fedgrid.engine.runtime.integrity.code import SOURCES
from fedgrid.engine.runtime.integrity.made_with import digest_run_code, find_modules

PLAIN = frozenset({type(None), bool, int, float, str, slice})
"""Types whose values are identified by `repr`."""


def digest_setup(setup: Setup, machine: object) -> str:
    """Compute the digest of a run's setup, of the machine that its clients train on, and of the code.

    Images are digested themselves, because a data set's files may change under their names.
    """
    return compute_digest([setup, machine, *_list_numerics()])


class ArrayDigests:
    """Digests of arrays, each computed once while it is in use."""

    def __init__(self) -> None:
        # The array is stored with its digest: while it is referenced here, no other array can get its `id`.
        self._digests: dict[int, tuple[NDArray[Any], str]] = {}

    def digest_arrays(self, arrays: Sequence[NDArray[Any]]) -> list[str]:
        """Compute one digest per array; digests of other arrays are dropped."""
        self._digests = {
            id(array): self._digests.get(id(array)) or (array, compute_digest(array)) for array in arrays
        }
        return [self._digests[id(array)][1] for array in arrays]


def digest_task(
    task: TrainTask, models: Sequence[str], payload: Mapping[str, str], memory: Memory | None
) -> str:
    """Compute the digest of a client's training: all of its task, its order, and what it remembers.

    Args:
        task: The client's training.
        models: Digests of the round's models; candidates count by them, since another run may have the same
            models at other positions.
        payload: Digests of the order's arrays, by name.
        memory: What the client remembers; None: nothing.
    """
    order = _collect_fields(task.order) | {
        "candidates": [models[candidate] for candidate in task.order.candidates],
        "payload": payload,
    }
    return compute_digest(_collect_fields(task) | {"order": order, "memory": memory or {}})


def compute_digest(value: object) -> str:
    """Compute 64 hexadecimal digits that identify a value.

    Raises:
        TypeError: for a type without a rule.
    """
    return sha256(_format_value(value).encode()).hexdigest()


def _format_value(value: object) -> str:
    """Format a value as a text that no other value has: only texts hold quotes, and `repr` escapes theirs."""
    if type(value) in PLAIN:  # Nearly all: a round of thirty clients has a thousand.
        return f"{type(value).__name__} {value!r}"
    match value:
        # Subclasses, such as NumPy's float64 or an enum, by their own type's name.
        case bool() | int() | float() | str():
            return f"{type(value).__name__} {value!r}"
        case np.ndarray():
            data = np.asarray(value, order="C").data
            return f"array({value.dtype} {value.shape} {sha256(data).hexdigest()})"
        case BaseModel():
            settings = {name: getattr(value, name) for name in type(value).model_fields}
            return f"{type(value).__qualname__}({_digest_code(type(value))} {_format_value(settings)})"
        case Mapping():
            # Sorted as texts, so that the order in which a mapping was filled does not matter.
            items = (f"{_format_value(key)}: {_format_value(inner)}" for key, inner in value.items())
            return f"{{{', '.join(sorted(items))}}}"
        case Sequence():
            return f"[{', '.join(map(_format_value, value))}]"
        case ImageView():
            return _format_value(value.copy_images())
        case _ if is_dataclass(value) and not isinstance(value, type):
            return f"{type(value).__qualname__}({_format_value(_collect_fields(value))})"
        case _:
            raise TypeError(f"no digest of a {type(value).__name__}")


def _collect_fields(value: Any) -> dict[str, object]:
    """Collect the fields of a dataclass, by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


@cache
def _digest_code(settings: type[BaseModel]) -> str:
    """Compute the digest of a settings class' code; a plugin's module is named by the plugin's digest."""
    modules = find_modules(settings)
    foreign = sorted(name for name in modules if name.startswith(PLUGIN_MODULE))
    return sha256("\n".join([SOURCES.digest_modules(modules), *foreign]).encode()).hexdigest()


@cache
def _list_numerics() -> tuple[str, ...]:
    """List the versions of torch, NumPy and this code, and the instruction set, where the server is."""
    import torch

    return torch.__version__, torch.backends.cpu.get_cpu_capability(), np.__version__, digest_run_code()
