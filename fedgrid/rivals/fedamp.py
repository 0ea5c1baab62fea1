"""FedAMP: each client's model is pulled towards a mixture of the models that are like it.

Source: Huang, Chu, Zhou, Wang, Liu, Pei, Zhang, Personalized Cross-Silo Federated Learning on Non-IID Data,
AAAI 2021, arXiv:2007.03797, Algorithm 1; all formulas here are from memory. With w_i the model of client i,
alpha `alpha`, sigma `sigma`, lambda `pull`, f_i its loss and A(x) = 1 - exp(-x / sigma), a round is:

1. for all other clients j the server computes a_ij = alpha A'(|w_i - w_j|^2), where A'(x) = exp(-x / sigma)
   / sigma, and sends client i the mixture u_i = (1 - sum_j a_ij) w_i + sum_j a_ij w_j;
2. client i trains w_i on, by f_i(w) + lambda / (2 alpha) |w - u_i|^2, and sends it.

All models start from the same one, so that u_i = w_i in round 1. A client is tested with w_i, on its own
images and on the server's; there is no model for all.

A client mixes with those within a squared distance of about sigma, and alpha / sigma is the weight of an
equal model. With n clients `alpha` is best below `sigma` / (n - 1): above it w_i may get a negative weight,
and like models are driven apart. The defaults are for up to 21 clients and small models: on digits, two
models that train alone on the same classes are 0.03 apart after a round and 1.5 after 15, on other classes
0.6 and 21. With them lambda / alpha is 1, so that at a learning rate of 0.1 each step goes a tenth of the way
to u_i.

Deviations: step 2 takes the local steps of the run's training from w_i, where the paper minimises. A client
that has not trained yet is in no mixture; one that is away is in them with its last model. Distances are over
the parameters alone.

A client's BatchNorm statistics are those of w_i, its own; the mixture has none, as nothing passes it.

Shapes: K clients, W entries of a state vector that are parameters, P of the whole.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from fedgrid import (
    Algorithm,
    AlgorithmEntry,
    Diagnostics,
    Fresh,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    Order,
    Presence,
    Settings,
    State,
    Traffic,
    Traits,
    Updates,
    Vector,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{huang2021personalized,
  author = {Huang, Yutao and Chu, Lingyang and Zhou, Zirui and Wang, Lanjun and Liu, Jiangchuan and Pei, Jian
    and Zhang, Yong},
  title = {Personalized Cross-Silo Federated Learning on Non-{IID} Data},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2021},
  eprint = {2007.03797},
  archiveprefix = {arXiv}
}"""
MIXTURE = "mixture"
"""Name in an order's payload of u_i, float32, shape (W,)."""
HAS_TRAINED = "has_trained_K"
"""Array of the state: whether a client has ever trained, bool, shape (K,)."""


class MixtureRule(LocalRule):
    """Pulls a client's model towards the mixture that it has received."""

    strength: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        return _MixtureSteps(self.strength, local.tensor(local.payload[MIXTURE]))


class _MixtureSteps(LocalSteps):
    """The mixture of one client, and how strongly it pulls."""

    def __init__(self, strength: float, mixture_W: "Tensor") -> None:
        self._strength = strength
        self._mixture_W = mixture_W

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Add lambda / alpha (w - u_i) to the gradient; called for each batch."""
        gradient.add_(weights - self._mixture_W, alpha=self._strength)


class FedAmpSettings(Settings):
    """Settings of FedAMP: the weights in a mixture, and its pull."""

    alpha: Annotated[float, Field(gt=0)] = 0.05
    """Step towards the other models; times 1 / `sigma` it is the weight of an equal model."""
    pull: Annotated[float, Field(ge=0)] = 0.05
    """lambda; 0 is local training. `pull` / `alpha` times the learning rate has to be below 2, else SGD
    diverges."""
    sigma: Annotated[float, Field(gt=0)] = 1.0
    """Squared distance of two models at which they mix by 0.37 of what equal ones do."""


class FedAmp(Algorithm):
    """The server keeps each client's model, and mixes them.

    Each client is a cluster by itself, and that partition is scored.

    Sends: A sampled client gets its mixture, four bytes a parameter, and returns its update.

    Degenerate cases:

    - `pull: 0`, or a tiny `sigma`, is local training, the latter with a pull towards the client's last model.
    - Equal models are their own mixture.
    - The run's `weights` have no effect, as nothing is averaged by numbers of images.

    Absent clients: A client that is away keeps its model, and is tested with it. One that has not trained yet
    is tested with the initial model. A held-out client trains once from that, and enters no mixture.

    Memory: A model for each client.
    """

    settings: FedAmpSettings

    @property
    def traits(self) -> Traits:
        """Clients train by a rule; models are sums of updates of one client, and no means."""
        return Traits(trains_plainly=False)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Build one model for each client, all equal, none of which counts yet."""
        arrays = {HAS_TRAINED: np.zeros(num_clients, bool)}
        return State((fresh(0),) * num_clients, np.arange(num_clients), arrays)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Let each sampled client train its own model, and send it its mixture."""
        rule = MixtureRule(strength=self.settings.pull / self.settings.alpha)
        models = [model[: layout.num_parameters] for model in state.models]
        orders = []
        for client in present.sampled:
            others = [models[other] for other in np.flatnonzero(state.arrays[HAS_TRAINED]) if other != client]
            mixture_W = mix_models(models[client], others, self.settings.alpha, self.settings.sigma)
            orders.append(Order(client, (client,), rule=rule, payload={MIXTURE: mixture_W}))
        return orders

    def traffic(self, order: Order, layout: Layout) -> Traffic:
        """Count the mixture alone on the way down: a client has its model from before."""
        return Traffic(down=order.payload[MIXTURE].nbytes)

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Move the models of the clients that replied; they are in mixtures from now on."""
        has_trained_K = state.arrays[HAS_TRAINED].copy()
        has_trained_K[list(updates.clients)] = True
        return self.place(state, updates).keep(**{HAS_TRAINED: has_trained_K}), Diagnostics()

    def place(self, state: State, updates: Updates) -> State:
        """Move each client's model to where its training has ended, in a round or once it is held out."""
        models = list(state.models)
        for client, update_P in zip(updates.clients, updates.vectors(), strict=True):
            models[client] = models[client] + update_P
        return replace(state, models=tuple(models))


def mix_models(model_W: Vector, others: Sequence[Vector], alpha: float, sigma: float) -> Vector:
    """Mix a client's model with those of others: u_i = w_i + sum_j a_ij (w_j - w_i).

    Args:
        model_W: the client's model w_i, float32, shape (W,).
        others: the models w_j of the other clients.
        alpha: as the setting.
        sigma: as the setting.

    Returns:
        u_i, float32, shape (W,); equal models are their own mixture to the bit.
    """
    mixture_W = model_W.copy()
    for other_W in others:
        offsets_W = other_W - model_W
        distance = np.square(offsets_W, dtype=np.float64).sum()
        mixture_W += np.float32(alpha / sigma * np.exp(-distance / sigma)) * offsets_W
    return mixture_W


ALGORITHMS = [
    AlgorithmEntry(
        name="fedamp",
        title="FedAMP",
        summary="each client's model is pulled towards a mixture of the models that are like it",
        source="Huang et al. 2021, arXiv:2007.03797",
        algorithm=FedAmp,
        settings=FedAmpSettings(),
        search={
            "alpha": {"low": 0.01, "high": 1.0, "log": True},
            "pull": {"low": 0.01, "high": 1.0, "log": True},
            "sigma": {"low": 0.1, "high": 10.0, "log": True},
        },
        bibtex=BIBTEX,
    )
]
