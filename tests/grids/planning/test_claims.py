"""What the commands claim: which of them can use one storage at the same time."""

import pytest

from fedgrid.grids.planning.claims import deletion_claims, import_claims, launch_claims, result_claims
from tests.helpers.small_grid import config

FIRST, SHARED_PREFIX = config(seed=1), config(seed=1, algorithm="ocfl-kmeans")
"""They share cached rounds."""
OTHER = config(seed=2)
RUNNING = launch_claims([FIRST, OTHER], [FIRST], cached=True)
"""Of a driver that trains `FIRST`; `OTHER` is finished."""
NAMED = f"{FIRST.name} ({FIRST.run_id})"
ROUNDS = f"cached rounds of {FIRST.scenario}"

BESIDE = {
    "other runs of the same rounds": (launch_claims([SHARED_PREFIX], [SHARED_PREFIX], cached=True), None),
    "the same run": (launch_claims([SHARED_PREFIX, FIRST], [SHARED_PREFIX, FIRST]), f"works on {NAMED}"),
    "the same run, not among those to do": (launch_claims([SHARED_PREFIX, FIRST], [SHARED_PREFIX]), None),
    "a finished run of both": (launch_claims([OTHER], []), None),
    "other rounds, fresh": (launch_claims([config(seed=3)], [config(seed=3)], cached=True, fresh=True), None),
    "a finished run, fresh": (
        launch_claims([OTHER], [OTHER], fresh=True),
        f"needs {OTHER.name} ({OTHER.run_id})",
    ),
    "the same rounds, fresh": (
        launch_claims([SHARED_PREFIX], [SHARED_PREFIX], cached=True, fresh=True),
        f"needs {ROUNDS}",
    ),
    "the same rounds, fresh without the cache": (
        launch_claims([SHARED_PREFIX], [SHARED_PREFIX], fresh=True),
        None,
    ),
    "deletion of another run": (deletion_claims([SHARED_PREFIX]), None),
    "deletion of a finished run": (deletion_claims([OTHER]), f"needs {OTHER.name} ({OTHER.run_id})"),
    "explanation of a finished run": (result_claims("explanations", [OTHER]), None),
    "import of the archive": (import_claims("archive-temperature"), None),
}


@pytest.mark.parametrize(("claims", "clash"), BESIDE.values(), ids=BESIDE)
def test_command_beside_a_running_grid(claims, clash):
    assert claims.clash(RUNNING) == clash
    assert (RUNNING.clash(claims) is None) == (clash is None)


ALONE = {
    "explanations of one run": result_claims("explanations", [FIRST]),
    "import": import_claims("archive-temperature"),
    "deletion of one run": deletion_claims([FIRST]),
}


@pytest.mark.parametrize("claims", ALONE.values(), ids=ALONE)
def test_two_commands_that_do_the_same_exclude_each_other(claims):
    assert claims.clash(claims) is not None
