"""Models of plugins whose structure a training would not respect are refused before it starts.

A run's models are flat vectors: all parameters train, each on its own, from values that fedgrid draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.engine.federation.errors import ConfigError, in_plugin, plugin_of

if TYPE_CHECKING:
    from torch import nn

NAMED = 3
"""Parameters that a message names."""


@cache
def check_own_model(
    name: str, shape: tuple[int, int, int], num_classes: int, plugin_digests: tuple[str, ...]
) -> None:
    """Check a plugin's model by building it, once for all runs: the digests tell its versions apart.

    Raises:
        ConfigError: it cannot be built, does not make a number for each class of images of this shape
            (channels, height, width), has frozen, tied or loaded parameters, or a layer or a tensor that
            fedgrid cannot initialise.
    """
    from fedgrid.engine.federation.models import registry  # Imports torch, which other models do without.

    plugin = plugin_of(registry.MODELS[name].build)
    try:
        problem = _problem(name, shape, num_classes)
    except Exception as error:
        # Whatever the plugin's code raises.
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        problem = f"fails on images of {'x'.join(map(str, shape))}: {kind}{error}"
        plugin = in_plugin(error) or plugin
    if problem is not None:
        raise ConfigError(f"{plugin}model {name}: {problem}", ("model",))


def _problem(name: str, shape: tuple[int, int, int], num_classes: int) -> str | None:
    """Return in one line what of a model would not be respected, and what to do; None if all is."""
    import torch

    from fedgrid.engine.federation.models import flat_vectors, registry

    with torch.random.fork_rng(devices=[]):
        built = [registry.build(name, shape, num_classes) for _ in range(2)]
    first, second = (dict(module.named_parameters()) for module in built)
    if frozen := [key for key, one in first.items() if not one.requires_grad]:
        return f"{_list(frozen)} would not stay frozen; remove requires_grad=False, so that all of it trains"
    if tied := _tied(built[0]):
        return (
            f"{_list(tied)} are one tensor, and would be trained apart; use the layer itself in both places, "
            "or give each a tensor of its own"
        )
    # Of biases and norms many are zero or one each time.
    loaded = [key for key, one in first.items() if one.dim() > 1 and torch.equal(one, second[key])]
    if loaded:
        return (
            f"{_list(loaded)} would lose the values that the model gives, the same each time; fedgrid "
            "draws all weights: remove what loads or sets them"
        )
    if unset := _not_initialised(name, shape, num_classes):
        return f"fedgrid does not know the first values of {_list(unset)}; leave out what torch's layers lack"
    with torch.no_grad():
        logits = flat_vectors.blank(name, shape, num_classes).eval()(torch.zeros(2, *shape))
    if logits.shape != (2, num_classes):
        return (
            f"an output of shape {tuple(logits.shape)} of 2 images; expected (2, {num_classes}), a number "
            "for each class: build is given num_classes"
        )
    return None


def _tied(module: nn.Module) -> list[str]:
    """Return the names of the first tensor that several layers have; a layer in two places is one layer."""
    names: dict[int, list[str]] = {}
    for path, layer in module.named_modules():
        for key, tensor in layer.named_parameters(path, recurse=False, remove_duplicate=False):
            names.setdefault(id(tensor), []).append(key)
    return next((keys for keys in names.values() if len(keys) > 1), [])


def _not_initialised(name: str, shape: tuple[int, int, int], num_classes: int) -> list[str]:
    """Return the names of the tensors that keep what was in memory before.

    Raises:
        ConfigError: a layer is of a type that is not supported.
    """
    import torch

    from fedgrid.engine.federation.models import flat_vectors

    module = flat_vectors.blank(name, shape, num_classes)
    layout = flat_vectors.layout_of(module)
    vectors = []
    for before in (0, 1):
        flat_vectors.write(module, np.full(layout.size, before, np.float32))
        flat_vectors.initialise(module, torch.Generator().manual_seed(0))
        vectors.append(flat_vectors.read_vector(module))
    is_unset = vectors[0] != vectors[1]
    return [key for key, where, _ in layout.slices() if is_unset[where].any()]


def _list(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f"{', '.join(keys[:NAMED])}{more}"
