"""Input that is broken, or made to do harm: one line, exit code 2, nothing written.

How long each takes: python -m tests.chaos.bad_inputs
"""

import pytest

from tests.helpers.bad_inputs import BAD_INPUTS


@pytest.mark.timeout(60)
@pytest.mark.parametrize("bad", BAD_INPUTS, ids=lambda bad: bad.name)
def test_bad_input_is_refused_in_one_line(refused, tmp_path, bad):
    bad.write(tmp_path)
    refused(*bad.arguments, says=bad.message)
