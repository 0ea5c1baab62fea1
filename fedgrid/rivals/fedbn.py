"""FedBN: every client keeps its BatchNorm layers; all else is averaged.

Source: Li, Jiang, Zhang, Kamp, Dou, FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization, ICLR 2021, arXiv:2102.07623, Algorithm 1, and the authors' code (med-air/FedBN). In a round a
client

1. receives the model without BatchNorm layers and puts its own into it,
2. trains all of it, and
3. sends all but its BatchNorm layers, which the server averages.

A BatchNorm layer is its weights gamma and beta, its running mean and variance, and its counter; layers are
found by what they are and not by their names, InstanceNorm layers among them. GroupNorm and LayerNorm are
averaged. A client is tested with the model just averaged and its own layers, after `fine_tune` steps if there
are any. Deviation: means are weighted by the run's `weights`, where the paper takes plain means.
"""

from dataclasses import replace

import numpy as np

from fedgrid import (
    Adaptation,
    AlgorithmEntry,
    Diagnostics,
    FedOpt,
    Layout,
    LocalRule,
    OwnRuleSettings,
    State,
    Updates,
)

BIBTEX = r"""@inproceedings{li2021fedbn,
  author = {Li, Xiaoxiao and Jiang, Meirui and Zhang, Xiaofei and Kamp, Michael and Dou, Qi},
  title = {{FedBN}: Federated Learning on Non-{IID} Features via Local Batch Normalization},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021},
  eprint = {2102.07623},
  archiveprefix = {arXiv}
}"""


class FedBn(FedOpt):
    """FedOpt on all but the BatchNorm layers, which `LocalRule.personal` keeps in the clients' memory.

    Sends: All but the BatchNorm layers, both ways.

    Degenerate cases:

    - A model without BatchNorm makes it FedAvg to the byte, and a warning says so.
    - The server has no whole model, so there is no test on the server's images: those scores are missing.

    Absent clients: A client that is away keeps its layers. One that has not trained yet, a newcomer before
    its first round among them, is served the initial ones (scale 1, shift 0, mean 0, variance 1); the paper
    does not say. A held-out client is tested after a training of its own.
    """

    settings: OwnRuleSettings

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule by which BatchNorm layers, weights and statistics, are the client's."""
        return LocalRule(personal=tuple(layout.ranges(layout.norm_layers)))

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Average; updates are zero where entries are the clients' own."""
        state, diagnostics = super().step(state, round_index, updates, rng)
        if round_index == 0 and not updates.layout.norm_layers:
            warning = "the model has no BatchNorm layer: this is FedAvg"
            diagnostics = replace(diagnostics, warnings=(*diagnostics.warnings, warning))
        return state, diagnostics

    def fine_tuning(self, state: State, layout: Layout) -> Adaptation | None:
        """Put each client's own BatchNorm layers in place, which fine-tuning starts from."""
        if not layout.norm_layers:
            return super().fine_tuning(state, layout)
        return Adaptation(self.rule(layout), self.settings.fine_tune)

    def global_model(self, state: State) -> None:
        """Return none: the server has no BatchNorm layers, so no whole model."""


ALGORITHMS = [
    AlgorithmEntry(
        name="fedbn",
        title="FedBN",
        summary="every client keeps its BatchNorm layers; all else is averaged",
        source="Li et al. 2021, arXiv:2102.07623",
        algorithm=FedBn,
        settings=OwnRuleSettings(),
        bibtex=BIBTEX,
    )
]
