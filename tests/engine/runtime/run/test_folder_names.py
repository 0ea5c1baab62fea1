"""Names of runs that can be no folders."""

import pytest

from fedgrid.engine.federation.configuration.run_config import AlgorithmSection
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from tests.helpers.logged_runs import build_config


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "../../x"},
        {"split": Split(kind="../x")},
        {"algorithm": AlgorithmSection(name="/../../../x")},
        {"dataset": "a\0b"},
    ],
)
def test_run_of_a_foreign_list_has_no_folder_outside_of_the_storage(tmp_path, change):
    hostile = build_config(0).model_copy(update=change)
    with pytest.raises(ConfigError, match="expected no /"):
        build_folder_path(tmp_path, hostile)


def test_a_name_that_is_too_long_for_a_folder_is_refused(tmp_path):
    long = build_config(0).model_copy(update={"dataset": f"csv:{'s' * 240}.csv@{'0' * 12}"})
    with pytest.raises(ConfigError, match="a name of 2.. bytes, and 255 are the most; rename the file"):
        build_folder_path(tmp_path, long)
