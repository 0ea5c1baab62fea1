"""What a model draws itself as it trains, as dropout does: torch's global generators, seeded for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def seeded(device: torch.device, rng: np.random.Generator) -> Iterator[None]:
    """Seed torch's generators of the CPU and of `device` from `rng`; restore their states afterwards."""
    generators = [torch.default_generator]
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    before = [source.get_state() for source in generators]
    seed = int(rng.integers(2**63))
    try:
        for source in generators:
            source.manual_seed(seed)
        yield
    finally:
        for source, state in zip(generators, before, strict=True):
            source.set_state(state)


@torch.no_grad()
def draws(module: nn.Module, shape: tuple[int, int, int]) -> bool:
    """Return whether a module on the CPU draws random numbers as it trains, after trying it.

    `shape` is (channels, height, width) of an image. The module is left in training mode; its buffers may
    change.
    """
    with seeded(torch.device("cpu"), np.random.default_rng(0)):
        before = torch.default_generator.get_state()
        module.train()(torch.zeros(2, *shape))
        return not torch.equal(before, torch.default_generator.get_state())
