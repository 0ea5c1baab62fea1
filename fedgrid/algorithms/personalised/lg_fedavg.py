"""LG-FedAvg: the last layers are shared, the others stay with each client.

Source: Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global Representations,
arXiv:2001.01523, Algorithm 1; `shared` as the authors' `num_layers_keep`. Every client trains its own lower
layers and the common upper ones together; the server averages the upper ones. A client is tested with its own
lower layers under the common upper ones. Their code starts from a model that FedAvg has trained: here the
first `warmup_rounds` are plain FedAvg. Deviation: what stays with a client is not sent to those that have not
trained yet; until then they have the initial lower layers, or FedAvg's.

Shapes: P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import NonNegativeInt

from fedgrid.algorithms.averaging.fedopt import FedOpt, OwnRuleSettings
from fedgrid.algorithms.contract.base import Fresh, State, StepResult
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.contract.orders import Adaptation, Order, Presence
from fedgrid.algorithms.contract.section import FirstRound
from fedgrid.algorithms.updates.source import Layout, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""@misc{liang2020think,
  author = {Liang, Paul Pu and Liu, Terrance and Ziyin, Liu and Allen, Nicholas B. and Auerbach, Randy P.
    and Brent, David and Salakhutdinov, Ruslan and Morency, Louis-Philippe},
  title = {Think Locally, Act Globally: Federated Learning with Local and Global Representations},
  year = {2020},
  eprint = {2001.01523},
  archiveprefix = {arXiv}
}"""

PERSONAL = "personal_ranges"
"""Name of the state's array with the ranges of the state vector that stay with clients, int64, shape (n,
2)."""
LACKING_LAYERS = "lacking_layers"
"""Name of the state's array with the number of layers that the model has less than `shared`, int64, shape
(1,)."""
ROUNDS = "rounds_done"
"""Name of the state's array with the number of rounds so far, int64, shape (1,)."""


class LgFedAvgSettings(OwnRuleSettings):
    """Settings of LG-FedAvg: how much is shared, and from when on."""

    shared: NonNegativeInt = 2
    """Number of last layers that are shared, a layer being a kernel and its bias or the weights of a
    normalisation; 0 is SOLO, all of them FedAvg."""
    warmup_rounds: Annotated[NonNegativeInt, FirstRound(later=1)] = 0
    """First rounds of plain FedAvg, with the whole model."""


class LgFedAvg(FedOpt):
    """FedOpt on the shared layers; `LocalRule.personal` keeps the others in the clients' memory.

    A layer's BatchNorm statistics go with it. (FL-bench's version shares the first layer, the wrong end.)

    Sends: The shared layers only, both ways: 11,014 of LeNet-5's 62,006 parameters with `shared: 2`.

    Degenerate cases:

    - `shared: 0` is SOLO up to rounding; all layers are BNC to the byte, and a warning says if `shared` is
      more than there are.
    - The server has no whole model, so there is no test on the server's images: those scores are missing.
    - The rounds of `warmup_rounds` come from BNC's in the cache.

    Absent clients: A client that is away keeps its own layers. One that has not trained yet has the initial
    ones.
    """

    settings: LgFedAvgSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Deviate from FedAvg after the rounds of the warm-up."""
        return (1.0 + self.settings.warmup_rounds,)

    def problem(self, conditions: Conditions) -> str | None:
        """Explain the conflict with clients' own buffers, which would change after the first rounds."""
        if self.settings.warmup_rounds and conditions.training.get("buffers") == "local":
            return "training.buffers = local: clients keep more after warmup_rounds; set warmup_rounds: 0"
        return super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build FedOpt's state, and find what of this model stays with the clients."""
        state = super().init(layout, num_clients, fresh, rng)
        ranges = find_personal_ranges(layout, self.settings.shared)
        # Stored for `global_model`, which has no layout; the warning is of the first step.
        lacking = max(0, self.settings.shared - len(layout.layers))
        return state.keep(
            **{
                PERSONAL: np.array(ranges, np.int64).reshape(-1, 2),
                LACKING_LAYERS: np.array([lacking]),
                ROUNDS: np.array([0]),
            }
        )

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client the model; all but its last layers give way to the client's own."""
        # Personal entries have no update, so the server's mean leaves them at the initial model.
        rule = self._build_rule(state, round_index)
        return [Order(client, (0,), rule=rule) for client in present.sampled]

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Average; updates are zero where entries are personal."""
        state, diagnostics = super().step(state, round_index, updates, rng)
        lacking = int(state.arrays[LACKING_LAYERS][0])
        if lacking and round_index == 0:
            layers = self.settings.shared - lacking
            warning = f"shared = {self.settings.shared}, but the model has {layers} layers: this is FedAvg"
            diagnostics = replace(diagnostics, warnings=(*diagnostics.warnings, warning))
        return state.keep(**{ROUNDS: np.array([round_index + 1])}), diagnostics

    def fine_tuning(self, state: State, layout: Layout) -> Adaptation | None:
        """Put each client's own lower layers in place, which fine-tuning starts from."""
        rule = self._build_rule(state, int(state.arrays[ROUNDS][0]))
        if rule is PLAIN:
            return super().fine_tuning(state, layout)
        return Adaptation(rule, self.settings.fine_tune)

    def global_model(self, state: State) -> Vector | None:
        """Return the model where it is one for all; None once clients have entries of their own."""
        rule = self._build_rule(state, int(state.arrays[ROUNDS][0]))
        return super().global_model(state) if rule is PLAIN else None

    def _build_rule(self, state: State, round_index: int) -> LocalRule:
        """Build the rule of a round: plain in the warm-up, then with personal entries."""
        if round_index < self.settings.warmup_rounds or not len(state.arrays[PERSONAL]):
            return PLAIN
        return LocalRule(personal=tuple(map(tuple, state.arrays[PERSONAL].tolist())))


def find_personal_ranges(layout: Layout, shared: int) -> list[tuple[int, int]]:
    """Find the ranges of the state vector that are not in the last `shared` layers, ascending.

    A layer's buffers go with its weights.
    """
    layers = layout.layers
    return layout.ranges(layers[: max(0, len(layers) - shared)])
