"""Kinds of split of plugins: settings of their own, and a rule that deals the images of a pool out.

Shapes: K clients, N images.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError, FedgridError, find_plugin_file, find_plugin_line
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.seeds import make_generator


class OwnSplit(Section, ABC):
    """A kind of split of a plugin: frozen settings with a `name`; the other fields are keys of `split`.

    A plugin lists the class in its `SPLITS`. Its fields enter a run's id, and so does the plugin's code.

    Args:
        name: name in configurations, given as a default of the field.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> class Halves(fedgrid.OwnSplit):
        ...     name: str = "halves"
        ...     def deal(self, pool, num_clients, rng):
        ...         order = rng.permutation(len(pool.labels_N))
        ...         return [0] * num_clients, np.array_split(order, num_clients)
        >>> images = fedgrid.ImageSet(np.zeros((6, 3), np.float32), np.array([0, 1, 0, 1, 0, 1]))
        >>> pool = fedgrid.ImagePool.from_images(images, num_classes=2)
        >>> groups, held = Halves().deal(pool, 2, np.random.default_rng(0))
        >>> groups, [len(positions) for positions in held]
        ([0, 0], [3, 3])
    """

    name: str
    """Name in configurations, as in `split: {kind: halves}`."""

    @abstractmethod
    def deal(
        self, pool: ImagePool, num_clients: int, rng: np.random.Generator
    ) -> tuple[Sequence[int], Sequence[Positions]]:
        """Deal the images of the pool out to clients.

        Called by fedgrid before the first round, and again wherever the run's images are needed later, as
        when it is resumed; it must return the same for the same generator. Images that no client holds are
        left out of the run.

        Args:
            pool: the images, as positions by class, with their groups if the data have any.
            num_clients: K.
            rng: generator of this scenario and seed; all randomness comes from it.

        Returns:
            Hidden group of each client, numbered from 0 without a gap. One group for all clients: none can be
                found.
            Positions of each client's images in the pool: at least one, and no image has two clients.
        """


class OwnKind(SplitKind):
    """The entry of an `OwnSplit` in the registry of kinds."""

    def __init__(self, rule: type[OwnSplit]) -> None:
        """Wrap the class that a plugin lists."""
        fields = {name: field for name, field in rule.model_fields.items() if name != "name"}
        self.rule = rule
        self.fields = tuple(fields)
        self.OPTIONS = tuple(name for name in fields if name in Split.model_fields)
        self.DEFAULTS = {
            name: field.get_default(call_default_factory=True)
            for name, field in fields.items()
            if not field.is_required()
        }

    def parse_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Parse the kind's own settings among the keys of a section `split`, as JSON has them.

        Raises:
            pydantic.ValidationError: one of them is impossible, or no key of `split` either.
        """
        # Fields that `Split` has as well, such as `alpha`, stay there; all other keys are the plugin's own.
        own = {key: given[key] for key in given if key in self.fields or key not in Split.model_fields}
        # As JSON, since these values enter the run's id.
        values = self.rule.model_validate(own).model_dump(mode="json")
        return {name: values[name] for name in self.fields if name in values}

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Call the plugin's `deal`, and check what it returns."""
        rule = self.rule(**{name: getattr(split, name) for name in self.fields if hasattr(split, name)})
        place, num_clients = find_plugin_file(self.rule, "deal"), scenario.num_clients
        try:
            # Two generators: one is the argument, the other seeds torch, NumPy and Python for code that draws
            # from these.
            rng, own_rng = (
                make_generator(seed, f"{purpose} of {scenario.seed_text}") for purpose in ("deal", "own deal")
            )
            with plugin_call_context(rule, "deal", own_rng):
                groups, dealt = rule.deal(pool, num_clients, rng)
                group_K, held_K = np.asarray(groups), [np.asarray(positions) for positions in dealt]
        except FedgridError:
            raise
        except Exception as error:
            # Whatever the plugin's code raises.
            cause = f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"{find_plugin_line(error) or place}split {rule.name}: {cause}", ("split",)
            ) from error
        if problem := _find_problem(group_K, held_K, num_clients, len(pool.labels_N)):
            raise ConfigError(f"{place}split {rule.name} of {num_clients} clients: {problem}", ("split",))
        return Partition(group_K.tolist(), [np.sort(held).astype(np.int64) for held in held_K])


def _find_problem(
    group_K: np.ndarray, held_K: Sequence[np.ndarray], num_clients: int, pool_size: int
) -> str | None:
    """Explain in one line why this is no deal of the pool; None if it is one.

    Args:
        group_K: the groups that the plugin returned.
        held_K: the positions that it returned, by client.
        num_clients: K.
        pool_size: N.
    """
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
    # One client could train on an image that another one is tested on; kinds that share images need another
    # cut (`holdouts.cut_for_all`).
    if counts_N.max() > 1:
        return f"image {counts_N.argmax()} is dealt {counts_N.max()} times; expected once at most"
    return None
