"""The keys that commands hold: which of them can use one storage at the same time."""

import pytest

from fedgrid.grids.planning.keys import (
    make_deletion_keys,
    make_import_keys,
    make_launch_keys,
    make_result_keys,
)
from tests.helpers.small_grid import config

FIRST, SHARED_PREFIX = config(seed=1), config(seed=1, algorithm="ocfl-kmeans")
"""They share cached rounds."""
OTHER = config(seed=2)
RUNNING = make_launch_keys([FIRST, OTHER], [FIRST], cached=True)
"""Of a driver that trains `FIRST`; `OTHER_MARK` is finished."""
NAMED = f"{FIRST.name} ({FIRST.run_id})"
TRAINING = f"the training of {NAMED}"
ROUNDS = f"cached rounds of {FIRST.shared_prefix}"

BESIDE = {
    "other runs of the same rounds": (make_launch_keys([SHARED_PREFIX], [SHARED_PREFIX], cached=True), []),
    "the same run": (make_launch_keys([SHARED_PREFIX, FIRST], [SHARED_PREFIX, FIRST]), [TRAINING]),
    "the same run, not among those to do": (make_launch_keys([SHARED_PREFIX, FIRST], [SHARED_PREFIX]), []),
    "a finished run of both": (make_launch_keys([OTHER], []), []),
    "other rounds, fresh": (
        make_launch_keys([config(seed=3)], [config(seed=3)], cached=True, fresh=True),
        [],
    ),
    "a finished run, fresh": (
        make_launch_keys([OTHER], [OTHER], fresh=True),
        [f"{OTHER.name} ({OTHER.run_id})"],
    ),
    "the same rounds, fresh": (
        make_launch_keys([SHARED_PREFIX], [SHARED_PREFIX], cached=True, fresh=True),
        [ROUNDS],
    ),
    "the same rounds, fresh without the cache": (
        make_launch_keys([SHARED_PREFIX], [SHARED_PREFIX], fresh=True),
        [],
    ),
    "deletion of another run": (make_deletion_keys([SHARED_PREFIX]), []),
    "deletion of a finished run": (make_deletion_keys([OTHER]), [f"{OTHER.name} ({OTHER.run_id})"]),
    "explanation of a finished run": (make_result_keys("explanations", [OTHER]), []),
    "import of the archive": (make_import_keys("archive-temperature"), []),
}


@pytest.mark.parametrize(("keys", "clash"), BESIDE.values(), ids=BESIDE)
def test_command_beside_a_running_grid(keys, clash):
    assert keys.find_clashes(RUNNING) == clash


ALONE = {
    "explanations of one run": make_result_keys("explanations", [FIRST]),
    "import": make_import_keys("archive-temperature"),
    "deletion of one run": make_deletion_keys([FIRST]),
}


@pytest.mark.parametrize("keys", ALONE.values(), ids=ALONE)
def test_two_commands_that_do_the_same_exclude_each_other(keys):
    assert keys.find_clashes(keys)
