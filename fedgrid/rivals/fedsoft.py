"""FedSoft: every client belongs to all clusters, each to some degree; the centres pull at its own model.

Source: Ruan, Joe-Wong, FedSoft: Soft Clustered Federated Learning with Proximal Local Updating, AAAI 2022,
arXiv:2112.06053, Algorithm 1, and the authors' code (ycruan/FedSoft). Client i has n_i images and a model w_i
of its own, cluster s a centre c_s. In each round:

1. n_is = the number of images of client i with the least loss under centre c_s (ties go to the first),
   u_is = max(n_is / n_i, sigma), v_is = u_is n_i / sum_j u_js n_j.
2. A client trains on from its own w_i by the run's optimizer, on
   f_i(w) + (lambda / 2) sum_s u_is |w - c_s|^2.
3. c_s = sum_i v_is w_i.

With `drawn` (S of the paper), S clients are drawn for each centre without replacement, with the probabilities
v_is, and c_s is the plain mean of the drawn clients' w_i. Round 1 then only counts, at all clients that have
joined; later the drawn clients train, once each, and the others count again in every tau-th round. Without
it, all sampled clients count and train.

A client is tested with its w_i. One that has not trained yet starts from the first centre as it receives it,
and is tested with the centre of its cluster; a client that was held out trains once (with `drawn` it only
counts) and is tested in the same way.

Deviations: with `drawn` the counts that are drawn by are one round old, as a round sends one order to a
client, and `participation` has no effect. The clients that train count in every round, not only in every
tau-th. sigma replaces all that is less, where the code replaces zeros. The run's `weights` have no effect.
The authors take Adam without shuffled batches.

Shapes: K clients of the federation, N of a round, C centres, W parameters, P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedgrid import (
    Adaptation,
    Algorithm,
    AlgorithmEntry,
    Conditions,
    Diagnostics,
    Finished,
    Fresh,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    Order,
    Presence,
    Served,
    Settings,
    State,
    Traits,
    Updates,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{ruan2022fedsoft,
  author = {Ruan, Yichen and Joe-Wong, Carlee},
  title = {FedSoft: Soft Clustered Federated Learning with Proximal Local Updating},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2022},
  eprint = {2112.06053},
  archiveprefix = {arXiv}
}"""
CENTRES, PARTS, OWN = "centres", "parts", "own"
"""The payload, all centres but the first, shape (C - 1, P); an output, u, float32, shape (C,); and what a
client remembers, w_i, shape (P,)."""
IMPORTANCE, DRAWN = "importance", "drawn"
"""Arrays of the state: u_is n_i, float64, shape (K, C), 0 before the first count; and whether a client is
drawn for a centre in the next round, bool, shape (K, C)."""


class SoftRule(LocalRule):
    """Counts images by centre, then trains the client's own model, pulled to all centres."""

    outputs: ClassVar[tuple[str, ...]] = (PARTS,)
    remembers: ClassVar[tuple[str, ...]] = (OWN,)
    is_cached: ClassVar[bool] = False

    pull: float
    least: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Count, and put the client's own model in place; before a test only the latter."""
        steps = LocalSteps() if local.is_adapting else _SoftSteps(self, local)
        if OWN in local.memory:
            local.load(local.memory[OWN])
        return steps


class _SoftSteps(LocalSteps):
    """The parts u of one client, and the point to which all centres pull together."""

    def __init__(self, rule: SoftRule, local: LocalModel) -> None:
        import torch

        centres = [local.snapshot(), *(local.tensor(centre) for centre in local.payload[CENTRES])]
        counts_C = local.losses(centres).argmin(1).bincount(minlength=len(centres))
        self._parts_C = (counts_C / counts_C.sum()).clamp(min=rule.least)
        # sum_s u_s (w - c_s) = (sum_s u_s) (w - the mean of c_s by u).
        shares_C = self._parts_C / self._parts_C.sum()
        self._target_W = (shares_C @ torch.stack(centres))[: len(local.weights)]
        self._pull = rule.pull * float(self._parts_C.sum())

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Add lambda sum_s u_s (w - c_s) to the gradient."""
        gradient.add_(weights - self._target_W, alpha=self._pull)

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Return u for the server, and w_i for the client, once it has trained one."""
        has_model = num_steps > 0 or OWN in local.memory
        own = {OWN: local.vector(local.snapshot())} if has_model else {}
        return Finished({PARTS: self._parts_C.cpu().numpy()}, own)


class FedSoftSettings(Settings):
    """Settings of FedSoft: the centres, the pull to them, and which clients train."""

    num_clusters: Annotated[int, Field(ge=1, strict=True)] = 2
    """Number of centres."""
    pull: Annotated[float, Field(ge=0)] = 0.1
    """lambda: 0.1 for MNIST, 0.01 for CIFAR-10 in the authors' code."""
    least: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """sigma: the least importance of a centre for a client."""
    every: Annotated[int, Field(ge=1, strict=True)] = 1
    """tau: with `drawn`, all clients count in every tau-th round."""
    drawn: Annotated[int, Field(ge=1, strict=True)] | None = None
    """S: number of clients drawn for each centre; None: all sampled clients train."""


class FedSoft(Algorithm):
    """Centres that are means of all clients' own models; the partition is by the largest u.

    A client's own model keeps its own BatchNorm statistics; those of a centre are the means of its clients'.
    Losses are per image, and cross-entropies: a data set with numbers to predict is refused.

    Sends: A client gets all C centres and returns its model and C numbers; one that only counts returns the
    numbers.

    Degenerate cases:

    - With `pull: 0` every client trains for itself, as in SOLO up to rounding; no centre enters its model.
    - With one centre it is not FedProx: a client goes on from its own model.
    - A centre of which no drawn client replies stays as it is. More centres than clients are refused.

    Absent clients: A client that is away keeps its model, and is tested with it; its last count is drawn by.

    Memory: `importance` (float64) and, with `drawn`, `drawn` (bool), shape (K, C); each client its model.
    """

    settings: FedSoftSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm: clients train by a rule, on classes."""
        return Traits(trains_plainly=False, by_class=True)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more centres, or more drawn clients, than there are clients."""
        drawn, clients = self.settings.drawn or 0, conditions.num_clients
        if drawn > clients:
            return (
                f"drawn {drawn} is more than the {clients} clients; set algorithm.drawn to {clients} or fewer"
            )
        return conditions.too_few_for(self.settings.num_clusters)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Draw independent centres."""
        models = tuple(fresh(number) for number in range(self.settings.num_clusters))
        shape = num_clients, len(models)
        arrays = {IMPORTANCE: np.zeros(shape), DRAWN: np.zeros(shape, bool)}
        return State(models, np.zeros(num_clients, np.int64), arrays)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send all centres to the clients that train, and to those that count."""
        trains, counts = set(present.sampled), set()
        if self.settings.drawn is not None:
            trains = {client for client in present.joined if state.arrays[DRAWN][client].any()}
            if round_index % self.settings.every == 0 or not trains:
                counts = set(present.joined) - trains
        payload = {CENTRES: np.stack(state.models)[1:]}
        return [
            Order(client, (0,), rule=self._rule, payload=payload, steps=None if client in trains else 0)
            for client in sorted(trains | counts)
        ]

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Make each centre a mean of clients' models; with `drawn`, draw those of the next round."""
        clients, parts_NC = list(updates.clients), np.stack(updates.outputs(PARTS))
        images_N = np.array([updates.images[client] for client in clients])
        importance_KC = state.arrays[IMPORTANCE].copy()
        # What noise of the uplink makes negative is no weight.
        importance_KC[clients] = parts_NC.astype(np.float64).clip(self.settings.least) * images_N[:, None]
        # All updates are differences from the first centre, which every client was sent to train.
        weights_KC = importance_KC if self.settings.drawn is None else state.arrays[DRAWN]
        models = list(state.models)
        for centre, weights_K in enumerate(weights_KC.T):
            weights = {client: float(weights_K[client]) for client in clients if weights_K[client]}
            if weights:
                models[centre] = state.models[0] + updates.means([list(weights)], weights)[0]
        drawn_KC = np.zeros_like(state.arrays[DRAWN])
        for importance_K, drawn_K in zip(importance_KC.T, drawn_KC.T, strict=True):
            number = min(self.settings.drawn or 0, int(np.count_nonzero(importance_K)))
            shares_K = importance_K / importance_K.sum()
            drawn_K[rng.choice(len(shares_K), number, replace=False, p=shares_K)] = True
        state = replace(self.place(state, updates), models=tuple(models))
        return state.keep(**{IMPORTANCE: importance_KC, DRAWN: drawn_KC}), Diagnostics(clustered=True)

    def place(self, state: State, updates: Updates) -> State:
        """Label the clients of `updates` by their largest u."""
        labels_K = state.labels_K.copy()
        labels_K[list(updates.clients)] = np.stack(updates.outputs(PARTS)).argmax(axis=1)
        return replace(state, labels_K=labels_K)

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its own model, one without any with its centre."""
        return Served(state.models, state.labels_K, Adaptation(self._rule))

    @property
    def _rule(self) -> SoftRule:
        return SoftRule(pull=self.settings.pull, least=self.settings.least)


ALGORITHMS = [
    AlgorithmEntry(
        name="fedsoft",
        title="FedSoft",
        summary="every client belongs to all clusters, each to some degree",
        source="Ruan, Joe-Wong 2022, arXiv:2112.06053",
        algorithm=FedSoft,
        settings=FedSoftSettings(),
        search={"num_clusters": [2, 3, 4], "pull": {"low": 0.01, "high": 1.0, "log": True}},
        told="number",
        bibtex=BIBTEX,
    )
]
