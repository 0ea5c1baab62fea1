"""Kinds of split of plugins: settings of their own, and a rule that deals the images of a pool out.

Shapes: K clients, N images.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError, FedgridError, in_plugin, plugin_of
from fedgrid.engine.federation.own_code import own_code
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import generator


class OwnSplit(Section, ABC):
    """A kind of split of a plugin: frozen settings with a `name`; the others are keys of `split`."""

    name: str

    @abstractmethod
    def deal(
        self, pool: ImagePool, num_clients: int, rng: np.random.Generator
    ) -> tuple[Sequence[int], Sequence[Positions]]:
        """Return each client's hidden group, from 0, and the positions of its images in the pool.

        Each client has images, and no image has two clients. One group for all: there is nothing to find.
        """


class OwnKind(SplitKind):
    """What the registry of kinds has of an `OwnSplit`."""

    def __init__(self, rule: type[OwnSplit]) -> None:
        """Take the class that a plugin lists."""
        fields = {name: field for name, field in rule.model_fields.items() if name != "name"}
        self.rule = rule
        self.fields = tuple(fields)
        self.OPTIONS = tuple(name for name in fields if name in Split.model_fields)
        self.DEFAULTS = {
            name: field.get_default(call_default_factory=True)
            for name, field in fields.items()
            if not field.is_required()
        }

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kind's own settings among the keys of a section `split`, as JSON has them.

        Raises:
            pydantic.ValidationError: one of them is impossible, or no key of `split` either.
        """
        own = {key: given[key] for key in given if key in self.fields or key not in Split.model_fields}
        values = self.rule.model_validate(own).model_dump(mode="json")
        return {name: values[name] for name in self.fields if name in values}

    def deal(self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs) -> Partition:
        """Return what the plugin deals, if it can be."""
        rule = self.rule(**{name: getattr(split, name) for name in self.fields if hasattr(split, name)})
        place, num_clients = plugin_of(self.rule, "deal"), scenario.num_clients
        try:
            rng, own_rng = (
                generator(seed, f"{purpose} of {scenario.seed_text}") for purpose in ("deal", "own deal")
            )
            with own_code(rule, "deal", own_rng):
                groups, dealt = rule.deal(pool, num_clients, rng)
                group_K, held_K = np.asarray(groups), [np.asarray(positions) for positions in dealt]
        except FedgridError:
            raise
        except Exception as error:
            # Whatever the plugin's code raises.
            cause = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{in_plugin(error) or place}split {rule.name}: {cause}", ("split",)) from error
        if problem := _problem_with(group_K, held_K, num_clients, len(pool.labels_N)):
            raise ConfigError(f"{place}split {rule.name} of {num_clients} clients: {problem}", ("split",))
        return Partition(group_K.tolist(), [np.sort(held).astype(np.int64) for held in held_K])


def _problem_with(
    group_K: np.ndarray, held_K: Sequence[np.ndarray], num_clients: int, pool_size: int
) -> str | None:
    """Return in one line why this is no dealing of a pool, None if it is one."""
    if group_K.shape != (num_clients,) or len(held_K) != num_clients:
        return f"deal returned {group_K.size} groups and positions of {len(held_K)} clients"
    if group_K.dtype.kind not in "iu" or set(group_K.tolist()) != set(range(group_K.max() + 1)):
        return f"groups are numbered from 0 without a gap, not {sorted(set(group_K.tolist()))}"
    for client, held in enumerate(held_K):
        if held.ndim != 1 or not len(held):
            return f"client {client} has no images; expected a list of positions"
        if held.dtype.kind not in "iu":
            return f"client {client} has positions of type {held.dtype}; np.flatnonzero makes them of a mask"
        if held.min() < 0 or held.max() >= pool_size:
            outside = held.min() if held.min() < 0 else held.max()
            return f"client {client} has image {outside}, but positions go from 0 to {pool_size - 1}"
    counts_N = np.bincount(np.concatenate(held_K), minlength=pool_size)
    if counts_N.max() > 1:
        return f"image {counts_N.argmax()} is dealt {counts_N.max()} times; expected once at most"
    return None
