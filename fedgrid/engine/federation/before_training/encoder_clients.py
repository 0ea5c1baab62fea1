"""Which of a run's clients train its encoder: a pure function of the run's seed."""

from collections import Counter
from collections.abc import Mapping, Sequence

from fedgrid.algorithms.contract.encoder import EncoderSettings
from fedgrid.engine.federation.seeds import generator


def sampled(settings: EncoderSettings, seed: int, present: Sequence[int], index: int) -> list[int]:
    """Return the clients of a federated round of the encoder, ascending.

    Args:
        settings: the encoder's.
        seed: the run's root seed.
        present: the clients that are there in round 1.
        index: of the round, from 0.
    """
    count = max(1, round(settings.participation * len(present)))
    rng = generator(seed, "encoder clients", round_index=index)
    return sorted(rng.permutation(present)[:count].tolist())


def updates_sent(settings: EncoderSettings, seed: int, present: Sequence[int]) -> Mapping[int, int]:
    """Return how many updates of the encoder each client has sent, of those that have sent any."""
    rounds = range(settings.federated)
    return Counter(client for index in rounds for client in sampled(settings, seed, present, index))
