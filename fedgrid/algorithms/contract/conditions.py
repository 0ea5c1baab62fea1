"""What a run is otherwise, for an algorithm that refuses what its settings do not fit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedgrid.algorithms.updates.source import Layout


@dataclass(frozen=True)
class Conditions:
    """What an algorithm's settings have to fit, known before anything starts."""

    num_clients: int
    """K."""
    has_reference_images: bool
    """Whether `split.reference_images` is set."""
    training: Mapping[str, Any]
    """The run's section `training`, by key."""
    has_held_out: bool = False
    """Whether clients are held out of the federation."""
    model: str = ""
    """Its name."""
    of_model: Callable[[], tuple[str, tuple[int, ...], Layout]] = field(
        default=lambda: ("pixels", (), Layout((), (), 0)), repr=False
    )
    """Returns the next three, for which a model is built."""

    @property
    def input_kind(self) -> str:
        """What an input of the model is: `pixels`, `numbers` or `tokens` (`Inputs.kind`)."""
        return self.of_model()[0]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of an input: channels, height, width of an image."""
        return self.of_model()[1]

    @property
    def layout(self) -> Layout:
        """What the entries of the model are."""
        return self.of_model()[2]

    def lacks_head(self) -> str | None:
        """Return what is wrong if the model's entry names no head."""
        if self.layout.head is not None:
            return None
        return (
            f"model {self.model} names no head, the module that its features go into; give its ModelEntry "
            f"one, as in head='{self.layout.layers[-1]}' for its last layer"
        )

    def too_few_for(self, num_clusters: int | None) -> str | None:
        """Return what is wrong if more clusters are asked for than there are clients."""
        if num_clusters is None or num_clusters <= self.num_clients:
            return None
        return (
            f"num_clusters {num_clusters} is more than the {self.num_clients} clients; set "
            f"algorithm.num_clusters to {self.num_clients} or fewer"
        )
