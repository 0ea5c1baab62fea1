"""Plugins as text: the smallest algorithm, clusterer and others of a user's own."""

ALGORITHM = """
from fedgrid import AlgorithmEntry, FedOpt, FedOptSettings

class Own(FedOpt):
    '''Plain averaging.'''

ALGORITHMS = [AlgorithmEntry("own", "OWN", "as fedavg", "ours", Own, FedOptSettings())]
"""

CLUSTERER = """
from typing import Literal
import numpy as np
from fedgrid import AlgorithmEntry, Clusterer, Ocfl, OcflSettings

class Halves(Clusterer):
    '''The first half of the clients, and the second.'''

    name: Literal["halves"] = "halves"
    first: int = 0

    def fit(self, distances_KK, rng):
        return (np.arange(len(distances_KK)) < len(distances_KK) // 2).astype(np.int64)

CLUSTERERS = [Halves]
ALGORITHMS = [
    AlgorithmEntry("ocfl-halves", "OCFL-2", "halves", "ours", Ocfl, OcflSettings(clusterer=Halves()))
]
"""

MODEL = """
from torch import nn
from fedgrid import ModelEntry

def build(channels, height, width, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, num_classes))

MODELS = [ModelEntry("own-model", "one linear layer", "ours", build=build)]
"""

DROPOUT = """
from torch import nn
from torch.nn import functional
from fedgrid import ModelEntry

class Dropped(nn.Module):
    # Dropout without a layer of that name.

    def __init__(self, size, num_classes):
        super().__init__()
        self.last = nn.Linear(size, num_classes)

    def forward(self, images):
        return self.last(functional.dropout(images.flatten(1), 0.5, self.training))

def layers(channels, height, width, num_classes):
    size = channels * height * width
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(size, num_classes))

def function(channels, height, width, num_classes):
    return Dropped(channels * height * width, num_classes)

MODELS = [
    ModelEntry("dropout-layer", "one linear layer", "ours", build=layers),
    ModelEntry("dropout-function", "one linear layer", "ours", build=function),
]
"""


def change_digest(text: str) -> str:
    """Change a plugin's digest and nothing else."""
    return text + "# changed\n"


AGGREGATOR = """
from typing import Literal
import numpy as np
from fedgrid import Aggregator

class Nearest(Aggregator):
    '''The update with the least sum of squared distances to its nearest others (Blanchard et al. 2017).'''

    name: Literal["nearest"] = "nearest"
    attackers: int = 1

    def combine(self, rows, shares=None, threads=1):
        squares = np.sort([[float(((one - other) ** 2).sum()) for other in rows] for one in rows], axis=1)
        nearest = max(1, len(rows) - self.attackers - 2)
        return rows[int(squares[:, 1 : nearest + 1].sum(axis=1).argmin())]

AGGREGATORS = [Nearest]
"""

SPLIT = """
from typing import Literal
import numpy as np
from fedgrid import OwnSplit

class Dealt(OwnSplit):
    '''Images are dealt in turn; the clients from `first` on are the second group.'''

    name: Literal["own-split"] = "own-split"
    first: int = 1

    def deal(self, pool, num_clients, rng):
        order = rng.permutation(len(pool.labels_N))
        groups = [int(client >= self.first) for client in range(num_clients)]
        return groups, [order[client::num_clients] for client in range(num_clients)]

SPLITS = [Dealt]
"""

LOCAL = """
from typing import Literal
from fedgrid import PLAIN, LocalMethod

class Same(LocalMethod):
    '''Trains plainly.'''

    name: Literal["own-local"] = "own-local"

    def rule(self):
        return PLAIN

LOCAL_METHODS = [Same]
"""

DATASET = """
import numpy as np
from fedgrid import ImageSet, OwnDataset

def read(folder):
    labels = np.arange(120) % 3
    images = np.random.default_rng(0).integers(0, 100, (120, 1, 8, 8)) + 70 * labels[:, None, None, None]
    return [ImageSet(images[part].astype(np.uint8), labels[part]) for part in (slice(90), slice(90, 120))]

DATASETS = [OwnDataset("own-data", title="own data", source="ours", read=read)]
"""
