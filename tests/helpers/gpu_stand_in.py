"""A GPU's stand-in: tensors on `cuda` lie in main memory, have the CPU's numbers, and are marked.

Inside `StandIn()` what is put on `cuda`, and what is computed from it, is marked: its storage is. Mixing it
with other tensors raises, as CUDA does, and so does `numpy()`. Waits for the device are counted, and so are
the bytes of the marked storages that are alive. There are no streams, kernels, speed and last bits of a GPU.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
WAITS = {
    *(aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal),
    *(aten.bincount, aten._unique2, aten.unique_dim, aten.unique_consecutive),
}
"""Operations that wait for the device: their result, or its size, is needed in main memory. The first one is
what `item`, `float`, `int` and `bool` of a tensor call."""
OURS = ("/algorithms/", "/engine/")
REAL: Mapping[str, Any] = {
    "device": torch._C.TensorBase.device,
    "to": Tensor.to,
    "numpy": Tensor.numpy,
    "tolist": Tensor.tolist,
    "tensor": torch.tensor,
    "autocast": torch.autocast,
}


def is_on_gpu(tensor: Tensor) -> bool:
    """Check whether a tensor is on the stand-in."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return getattr(tensor.untyped_storage(), "on_gpu", False)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among values, and in the lists and tuples among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


class StandIn(TorchDispatchMode):
    """The device `cuda` inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        """How often the program has waited for the device, by operation and our function that called it."""
        self.live = self.peak = 0
        """Bytes on the device now, and at most since the last `forget`."""
        self._is_leaving = False
        self._patches = ExitStack()

    def forget(self) -> None:
        """Count waits and bytes from now on."""
        self.waits.clear()
        self.peak = self.live

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given, kind = dict(kwargs or {}), func.overloadpacket
        tensors = [*_tensors(args), *_tensors(given.values())]
        is_here = any(map(is_on_gpu, tensors))
        is_made_here = given.get("device") is not None and torch.device(given["device"]).type == "cuda"
        if is_made_here:
            given["device"] = CPU
        is_copy_out = kind is aten.copy_ and not is_on_gpu(args[0])
        if is_here:
            self._check(func, args, tensors)
            if kind in WAITS or is_copy_out:
                self._count_wait(str(func))
        elif kind is aten._to_copy and is_made_here and not given.get("non_blocking"):
            self._count_wait("to the GPU")
        if given.get("generator") is not None and (is_here or is_made_here):
            raise RuntimeError(f"{func}: expected a generator on cuda, but found one on the CPU")
        result = func(*args, **given)
        if is_made_here or (is_here and not self._is_leaving and not is_copy_out):
            for each in _tensors((result,)):
                self._mark_storage(each)
        return result

    def _check(self, func: Any, args: Sequence[Any], tensors: Sequence[Tensor]) -> None:
        """Raise where CUDA would; tensors without a dimension may come from the CPU."""
        kind = func.overloadpacket
        if kind is aten._to_copy:
            return
        if kind is aten.copy_:
            is_blocking = not (len(args) > 2 and args[2])
            if is_on_gpu(args[0]) and not is_on_gpu(args[1]) and args[1].dim() and is_blocking:
                self._count_wait("to the GPU")
            return
        if kind in INDEXED:
            # Positions may come from the CPU, which takes a wait; so does a mask, whose size is not known.
            places = [each for each in args[1] if each is not None]
            tensors = [each for each in tensors if not any(each is place for place in places)]
            if not all(map(is_on_gpu, places)) or any(place.dtype == torch.bool for place in places):
                self._count_wait(str(func))
        if any(each.dim() and not is_on_gpu(each) for each in tensors):
            shapes = ", ".join(f"{tuple(each.shape)} on {each.device}" for each in tensors)
            raise RuntimeError(f"{func}: expected all tensors to be on the same device, but found {shapes}")

    def _mark_storage(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if not getattr(storage, "on_gpu", False):
            storage.on_gpu = True  # type: ignore[attr-defined]
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._release_bytes, storage.nbytes())

    def _release_bytes(self, num_bytes: int) -> None:
        self.live -= num_bytes

    def _count_wait(self, what: str) -> None:
        frame = sys._getframe(1)
        while frame.f_back and not any(part in frame.f_code.co_filename for part in OURS):
            frame = frame.f_back
        self.waits[f"{what} in {frame.f_code.co_name}"] += 1

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        is_copy = kwargs.pop("copy", False)
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or (device.type == "cuda") == is_on_gpu(tensor):
            options = {} if layout is None else {"memory_format": layout}
            moved: Tensor = REAL["to"](tensor, dtype=dtype or tensor.dtype, copy=is_copy, **options)
        elif device.type == "cuda":
            moved = aten._to_copy.default(
                tensor, dtype=dtype, device=GPU, non_blocking=non_blocking, memory_format=layout
            )
        else:
            self._count_wait("to the CPU")
            self._is_leaving = True
            try:
                moved = aten._to_copy.default(tensor, dtype=dtype, device=device)
            finally:
                self._is_leaving = False
        return moved

    def _tensor(self, data: Any, *, device: Any = None, **given: Any) -> Tensor:
        made: Tensor = REAL["tensor"](data, **given)
        return made if device is None else self._to(made, device)

    def _numpy(self, tensor: Tensor, **given: Any) -> Any:
        if is_on_gpu(tensor):
            raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu() first")
        return REAL["numpy"](tensor, **given)

    def _tolist(self, tensor: Tensor) -> Any:
        if is_on_gpu(tensor):
            self._count_wait("tolist")
        return REAL["tolist"](tensor)

    def __enter__(self) -> Self:
        for name, replacement in {"to": self._to, "numpy": self._numpy, "tolist": self._tolist}.items():
            self._patch(Tensor, name, _method(replacement))
        self._patch(Tensor, "cpu", _method(lambda tensor: self._to(tensor, CPU)))
        self._patch(Tensor, "device", property(_device))
        self._patch(torch, "tensor", self._tensor)
        self._patch(torch, "autocast", lambda kind, *args, **given: REAL["autocast"]("cpu", *args, **given))
        self._patch(torch.cuda, "_lazy_init", lambda: None)
        self._patch(torch.cuda, "is_available", lambda: True)
        self._patch(torch.cuda, "current_device", lambda: 0)
        self._patch(torch.cuda, "default_generators", (torch.Generator(),))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.close()

    def _patch(self, owner: Any, name: str, replacement: Any) -> None:
        self._patches.enter_context(patch.object(owner, name, replacement, create=True))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Build a plain function, which as an attribute of a class gets the instance."""
    return lambda tensor, *args, **given: function(tensor, *args, **given)


def _device(tensor: Tensor) -> torch.device:
    return GPU if is_on_gpu(tensor) else REAL["device"].__get__(tensor)
