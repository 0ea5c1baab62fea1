"""The names of the robust means, as values of the setting `aggregate`."""

from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.robust.clipping import CentredClipping, NormClipping
from fedgrid.algorithms.robust.geometric_median import GeometricMedian
from fedgrid.algorithms.robust.krum import Krum, MultiKrum
from fedgrid.algorithms.robust.trimmed_mean import TrimmedMean

ROBUST_MEANS: dict[str, type[Aggregator]] = {
    "trimmed-mean": TrimmedMean,
    "geometric-median": GeometricMedian,
    "krum": Krum,
    "multi-krum": MultiKrum,
    "centred-clipping": CentredClipping,
    "norm-clipping": NormClipping,
}
