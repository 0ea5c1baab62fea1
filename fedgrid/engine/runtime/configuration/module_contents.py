"""The contents of a torch module: tensors, and plain attributes, also within lists, dicts and objects."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrid.engine.federation.models.flat_vectors import find_buffers, find_parameters

TORCH_ATTRIBUTES = frozenset(vars(nn.Module()))
"""Attributes that every module has."""
NUMBERS = int | float | np.number
"""Types of plain numbers."""
GENERATORS = np.random.Generator | torch.Generator | random.Random
"""Types of generators of random numbers."""
OPAQUE = Tensor | np.ndarray | GENERATORS
"""Types whose values are compared themselves, and not searched for contents."""
WITHOUT_CONTENTS = type | ModuleType | FunctionType | MethodType
"""Types that hold code, whose attributes are no contents."""


@dataclass(frozen=True)
class ModuleItem:
    """A value of a module, and where it is: `place[key]`."""

    name: str
    """Its name, as in `teacher.weight` or `queue[0]`."""
    place: Any
    """The dict, list or the like that holds it."""
    key: Any
    value: Any

    @property
    def digest(self) -> object:
        """What distinguishes the value from a later one; None if it is of no kind that is compared."""
        value = self.value
        if isinstance(value, Tensor):
            cells = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            return tuple(value.shape), crc32(cells.numpy().tobytes())
        if isinstance(value, np.ndarray):
            return value.shape, crc32(np.ascontiguousarray(value).tobytes())
        if isinstance(value, np.random.Generator):
            return repr(value.bit_generator.state)
        if isinstance(value, torch.Generator):
            return value.get_state().numpy().tobytes()
        if isinstance(value, random.Random):
            return value.getstate()
        if isinstance(value, list | deque):
            return len(value)
        return value if isinstance(value, str | NUMBERS) else None

    def age_value(self, number: int) -> bool:
        """Make the value as if the module had counted up to `number`; return whether it can be a counter.

        A number becomes `number`, a list as long.
        """
        value = self.value
        # A bool is an int for Python, but no counter; items of a tuple cannot be set.
        if isinstance(value, NUMBERS) and not isinstance(value, bool) and not isinstance(self.place, tuple):
            self.place[self.key] = type(value)(number)
        elif isinstance(value, Tensor) and value.numel() == 1:
            value.detach().fill_(number)
        elif isinstance(value, list | deque) and value:
            # A limit for memory: what reads the length of a list rarely waits for more.
            value.extend([value[-1]] * min(number, 1000))
        else:
            return False
        return True


def iterate_contents(module: nn.Module) -> Iterator[ModuleItem]:
    """Yield all that a module holds, each object once: tensors first, then plain attributes."""
    tensors = (module.named_parameters(), module.named_buffers())
    named = {name: tensor for each in tensors for name, tensor in each}
    seen = set()
    for name, tensor in named.items():
        seen.add(id(tensor))
        yield ModuleItem(name, named, name, tensor)
    yield from _iterate_inside("", module, seen)


def _iterate_inside(name: str, value: object, seen: set[int]) -> Iterator[ModuleItem]:
    """Yield all that a value holds, and what that holds; `seen` has the ids of what was yielded."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for item in _iterate_members(name, value):
        if isinstance(item.value, OPAQUE):
            if id(item.value) not in seen:
                seen.add(id(item.value))
                yield item
        else:
            if not isinstance(item.value, nn.Module):
                yield item
            yield from _iterate_inside(item.name, item.value, seen)


def _iterate_members(name: str, value: object) -> Iterator[ModuleItem]:
    """Yield what a value holds directly."""
    dot = f"{name}." if name else ""
    if isinstance(value, torch.jit.ScriptModule):
        return  # It has nothing but tensors, and modules of such.
    if isinstance(value, nn.Module):
        for held in (value._parameters, value._buffers, value._modules):
            yield from (ModuleItem(f"{dot}{key}", held, key, held[key]) for key in list(held))
        own = vars(value)
        yield from (
            ModuleItem(f"{dot}{key}", own, key, own[key]) for key in list(own) if key not in TORCH_ATTRIBUTES
        )
    elif isinstance(value, dict):
        yield from (ModuleItem(f"{name}[{key!r}]", value, key, value[key]) for key in list(value))
    elif isinstance(value, list | tuple | deque):
        yield from (
            ModuleItem(f"{name}[{index}]", value, index, one) for index, one in enumerate(list(value))
        )
    elif hasattr(value, "__dict__") and not isinstance(value, WITHOUT_CONTENTS):
        own = vars(value)
        yield from (ModuleItem(f"{dot}{key}", own, key, own[key]) for key in list(own))


def find_shared_memory(module: nn.Module) -> str | None:
    """Find a tensor of the module's state that shares memory with another one, or within itself.

    Returns a line with what to do, None if there is none. A workspace gives each tensor its own place, so
    that they would no longer follow one another.
    """
    state = {**find_parameters(module), **find_buffers(module)}
    held = [
        item for item in iterate_contents(module) if isinstance(item.value, Tensor) and item.value.numel()
    ]
    by_storage: dict[int, list[ModuleItem]] = {}
    for item in held:
        if item.value.layout == torch.strided:
            by_storage.setdefault(item.value.untyped_storage().data_ptr(), []).append(item)
    for name, tensor in state.items():
        if not tensor.is_contiguous() and len(np.unique(_find_cells(tensor))) < tensor.numel():
            return f"entries of {name} share memory, but would be trained apart; take .clone() of it"
        if not tensor.numel():
            continue
        for other in by_storage[tensor.untyped_storage().data_ptr()]:
            if other.value is not tensor and np.isin(_find_cells(tensor), _find_cells(other.value)).any():
                return (
                    f"{other.name} shares memory with {name}, but would not follow it in training; tie them "
                    "as one parameter, as in b.weight = a.weight, or take .clone()"
                )
    return None


def _find_cells(tensor: Tensor) -> NDArray[np.int64]:
    """Find the places of a tensor's entries in its storage."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    places = torch.arange(count).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    cells: NDArray[np.int64] = places.flatten().numpy()
    return cells
