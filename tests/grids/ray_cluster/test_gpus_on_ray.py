"""GPUs of a Ray cluster of two nodes, pretended ones: opened, measured and used where Ray deals them out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.pretended_gpu import BUSY

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


def test_each_node_opens_the_gpus_that_it_gives_to_ray_though_no_cpu_is_free(found):
    """By the names that it sees; the second one sees one more. All CPUs are reserved meanwhile."""
    named = [(name.partition(" of node ")[0], free) for name, free in found["opened without a free CPU"]]
    assert named == [("GPU 0", 3 * GB), ("GPU 3", GB), ("GPU 5", 2 * GB)]


def test_a_gpu_that_cannot_be_used_is_refused_with_its_node_and_cause(found):
    line = found["refused"]
    assert line.startswith("GPU 5 of node ")
    assert BUSY in line
    assert "CUDA_VISIBLE_DEVICES=3 where Ray is started there" in line


def test_gpus_are_left_alone_while_another_driver_uses_some(found):
    assert found["opened beside another driver"] == []


def test_clients_are_measured_on_a_gpu_though_all_cpus_are_reserved(found):
    assert found["measured on"] in ("0", "3", "5")


def test_process_that_dies_while_clients_are_measured_is_told_in_a_line(found):
    assert found["unmeasured"].startswith("RunError: measuring clients on a GPU failed (")
    assert "\n" not in found["unmeasured"]


def test_wrong_settings_are_the_same_error_as_in_training(found):
    assert found["untrainable"] == "ConfigError: training.batch_size=1 does not work with BatchNorm"


def test_a_client_actor_reserves_main_memory(found):
    assert found["a client actor reserves"] == pytest.approx({"CPU": 0.6, "GPU": 0.25, "memory": GB})


def test_a_process_does_many_jobs_of_an_analysis_all_on_one_gpu(found):
    """A core each: two processes, on GPUs of both nodes."""
    jobs = found["jobs"]
    assert sum(map(len, jobs.values())) == 8
    assert len(jobs) == 2
    assert [len(set(gpus)) for gpus in jobs.values()] == [1, 1]
