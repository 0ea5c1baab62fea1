"""Two clusters, made once: clients whose updates are longer than the median, and the others."""

import numpy as np

from fedgrid import AlgorithmEntry, Diagnostics, FedOpt, FedOptSettings, State, Updates, split_positions


class LongShortSettings(FedOptSettings):
    """When the clients are split."""

    round: int = 5
    """Counted from 1."""


class LongShort(FedOpt):
    """Federated averaging, in two clusters from round `round` on."""

    settings: LongShortSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Return the first round that is not plain averaging."""
        return (float(self.settings.round),)

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Return the partition of this round; `round_index` counts from 0."""
        if round_index + 1 != self.settings.round:
            return state, Diagnostics()
        is_long = updates.norms_K > np.median(updates.norms_K)
        if is_long.all() or not is_long.any():
            return state, Diagnostics(warnings=("all updates are of one length: no split",))
        groups = [np.flatnonzero(is_long).tolist(), np.flatnonzero(~is_long).tolist()]
        return split_positions(state, 0, updates, groups), Diagnostics(clustered=True)


ALGORITHMS = [
    AlgorithmEntry(
        name="long-short",
        title="LS",
        summary="splits once, in a fixed round: long updates from short ones",
        source="ours",
        algorithm=LongShort,
        settings=LongShortSettings(),
    )
]
