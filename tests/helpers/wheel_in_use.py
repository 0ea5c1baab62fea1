"""Steps of a user of the wheel, in one process: run as a file, where the tests are not on Python's path.

It writes to the folder that it is started in, and prints what it has seen, as JSON on the last line.
"""

import json
import sys
from types import ModuleType
from typing import cast

HEAVY = {"ray", "mlflow", "torch", "matplotlib", "sklearn"}
NOT_NEEDED = ("ray", "mlflow", "igraph", "leidenalg")
ALGORITHM_NAMES = (
    *("AlgorithmEntry", "Clusterer", "Diagnostics", "FedOpt", "FedOptSettings", "ModelEntry", "Ocfl"),
    *("RunConfig", "State", "Updates"),
)
CONFIG = {"clients": 3, "algorithm": "fedavg", "training": {"rounds": 2}}
SMALL = ("--clients", "6", "training.rounds=2", "--where", "algorithm=fedavg", "--in-process")


def main() -> None:
    """Import fedgrid, run, read, and use the command line; import as late as a user does."""
    import fedgrid

    at_import = sorted(name for name in sys.modules if name.startswith("fedgrid."))
    for name in ALGORITHM_NAMES:
        getattr(fedgrid, name)
    for_an_algorithm = sorted(HEAVY & set(sys.modules))

    # An import of these raises from now on.
    sys.modules.update(cast(dict[str, ModuleType], dict.fromkeys(NOT_NEEDED)))
    result = fedgrid.run(CONFIG, storage="here")
    by_a_run = "sympy" in sys.modules

    from fedgrid.grids.cli.main import app
    from fedgrid.grids.submit.job import submit_job  # noqa: F401

    for name in fedgrid.__all__:
        getattr(fedgrid, name)
    assert fedgrid.figures.cluster_map(result.records) is not None

    app(["run", "quickstart", *SMALL, "--storage", "runs"], standalone_mode=False)
    app(["report", "quickstart", "--storage", "runs"], standalone_mode=False)
    seen = {
        "modules at import": at_import,
        "heavy packages for an algorithm": for_an_algorithm,
        "sympy by a run": by_a_run,
        "rows": [result.table(name).num_rows for name in ("rounds", "clients")],
        "clusters": result.scores["clusters"],
        "folder": str(result.folder.parent),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
