"""The rest of a run's configuration, as far as an algorithm may refuse it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedgrid.algorithms.updates.source import Layout


@dataclass(frozen=True)
class Conditions:
    """Facts about a run that an algorithm's settings have to fit; available before anything starts.

    The engine builds it and passes it to `Algorithm.problem`.

    Args:
        num_clients: number of clients of the federation, K.
        has_reference_images: whether the server has reference images (`split.reference_images`).
        training: the run's section `training`: value of each key.
        has_held_out: whether clients are held out of the federation (`held_out`).
        model: name of the run's model.
        describe_model: function that returns the next three, as a tuple.

    Example:
        >>> import fedgrid
        >>> conditions = fedgrid.Conditions(4, has_reference_images=False, training={"optimizer": "sgd"})
        >>> conditions.too_few_for(5)
        'num_clusters 5 is more than the 4 clients; set algorithm.num_clusters to 4 or fewer'
        >>> conditions.too_few_for(2) is None
        True
    """

    num_clients: int
    """Number of clients of the federation, K."""
    has_reference_images: bool
    """Whether the server has reference images (`split.reference_images`)."""
    training: Mapping[str, Any]
    """The run's section `training`: value of each key."""
    has_held_out: bool = False
    """Whether clients are held out of the federation (`held_out`)."""
    model: str = ""
    """Name of the run's model."""
    describe_model: Callable[[], tuple[str, tuple[int, ...], Layout]] = field(
        default=lambda: ("pixels", (), Layout((), (), 0)), repr=False
    )
    """Function that returns the next three, as a tuple. It builds the model, which takes a while, so it is
    called only if an algorithm reads one of them."""

    @property
    def input_kind(self) -> str:
        """Kind of the model's inputs: `pixels`, `numbers` or `tokens` (`Inputs.kind`)."""
        return self.describe_model()[0]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input: channels, height and width of an image."""
        return self.describe_model()[1]

    @property
    def layout(self) -> Layout:
        """Names and shapes of the tensors in the model's state vector."""
        return self.describe_model()[2]

    def lacks_head(self) -> str | None:
        """Explain that the model's entry names no head; None if it names one.

        Models of the package name one. A rule that reads `LocalModel.features` needs it: `return
        conditions.lacks_head() or super().problem(conditions)`.
        """
        if self.layout.head is not None:
            return None
        return (
            f"model {self.model} names no head, the module that its features go into; give its ModelEntry "
            f"one, as in head='{self.layout.layers[-1]}' for its last layer"
        )

    def too_few_for(self, num_clusters: int | None) -> str | None:
        """Explain that there are more clusters than clients; None if there are not, or no number is given."""
        if num_clusters is None or num_clusters <= self.num_clients:
            return None
        return (
            f"num_clusters {num_clusters} is more than the {self.num_clients} clients; set "
            f"algorithm.num_clusters to {self.num_clients} or fewer"
        )
