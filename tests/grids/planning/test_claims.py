"""What the commands claim: which of them can use one storage at the same time."""

import pytest

from fedgrid.grids.planning.claims import of_deletion, of_further_results, of_import, of_launch
from tests.helpers.small_grid import config

FIRST, SHARED_PREFIX = config(seed=1), config(seed=1, algorithm="ocfl-kmeans")
"""They share cached rounds."""
OTHER = config(seed=2)
RUNNING = of_launch([FIRST, OTHER], [FIRST], cached=True)
"""Of a driver that trains `FIRST`; `OTHER` is finished."""
NAMED = f"{FIRST.name} ({FIRST.run_id})"
ROUNDS = f"cached rounds of {FIRST.scenario}"

BESIDE = {
    "other runs of the same rounds": (of_launch([SHARED_PREFIX], [SHARED_PREFIX], cached=True), None),
    "the same run": (of_launch([SHARED_PREFIX, FIRST], [SHARED_PREFIX, FIRST]), f"works on {NAMED}"),
    "the same run, not among those to do": (of_launch([SHARED_PREFIX, FIRST], [SHARED_PREFIX]), None),
    "a finished run of both": (of_launch([OTHER], []), None),
    "other rounds, fresh": (of_launch([config(seed=3)], [config(seed=3)], cached=True, fresh=True), None),
    "a finished run, fresh": (
        of_launch([OTHER], [OTHER], fresh=True),
        f"needs {OTHER.name} ({OTHER.run_id})",
    ),
    "the same rounds, fresh": (
        of_launch([SHARED_PREFIX], [SHARED_PREFIX], cached=True, fresh=True),
        f"needs {ROUNDS}",
    ),
    "the same rounds, fresh without the cache": (
        of_launch([SHARED_PREFIX], [SHARED_PREFIX], fresh=True),
        None,
    ),
    "deletion of another run": (of_deletion([SHARED_PREFIX]), None),
    "deletion of a finished run": (of_deletion([OTHER]), f"needs {OTHER.name} ({OTHER.run_id})"),
    "explanation of a finished run": (of_further_results("explanations", [OTHER]), None),
    "import of the archive": (of_import("archive-temperature"), None),
}


@pytest.mark.parametrize(("claims", "clash"), BESIDE.values(), ids=BESIDE)
def test_command_beside_a_running_grid(claims, clash):
    assert claims.clash(RUNNING) == clash
    assert (RUNNING.clash(claims) is None) == (clash is None)


ALONE = {
    "explanations of one run": of_further_results("explanations", [FIRST]),
    "import": of_import("archive-temperature"),
    "deletion of one run": of_deletion([FIRST]),
}


@pytest.mark.parametrize("claims", ALONE.values(), ids=ALONE)
def test_two_commands_that_do_the_same_exclude_each_other(claims):
    assert claims.clash(claims) is not None
