"""GPUs of a Ray cluster of two nodes, pretended ones: their memory, and where Ray deals them out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
CHECKOUT = Path(__file__).parents[3]
GB = 10**9
LIMIT = 300
"""Seconds."""


@pytest.fixture(scope="module")
def found():
    """What `tests.helpers.gpus_on_ray` prints."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.helpers.gpus_on_ray import main; main()"],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_each_node_says_what_its_smallest_gpu_has_though_no_cpu_is_free(found):
    """Of those that it gives to Ray; the second one sees one more. All CPUs are reserved meanwhile."""
    assert found["memory of GPUs"] == [[1, 2 * GB], [2, 3 * GB]]


def test_a_client_actor_reserves_main_memory(found):
    assert found["a client actor reserves"] == pytest.approx({"CPU": 0.6, "GPU": 0.25, "memory": GB})


def test_a_process_does_many_jobs_of_an_analysis_all_on_one_gpu(found):
    """A core each: two processes, on GPUs of both nodes."""
    jobs = found["jobs"]
    assert sum(map(len, jobs.values())) == 8
    assert len(jobs) == 2
    assert [len(set(gpus)) for gpus in jobs.values()] == [1, 1]
