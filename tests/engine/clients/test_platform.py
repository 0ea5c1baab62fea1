"""What bits depend on besides the setup, and how it is fixed while a client trains."""

import numpy as np
import pytest
import torch

from fedgrid.engine.clients.platform import UNKNOWN, describe, driver, fixed_numerics, of_all

VERSION = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)
GCC version:  gcc version 12.3.0
"""


def flags():
    return (
        torch.backends.cudnn.conv.fp32_precision,
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.get_num_threads(),
    )


def test_facts_of_a_processor():
    facts = describe("cpu", tf32=True)
    assert facts["torch"] == torch.__version__
    assert facts["numpy"] == np.__version__
    assert facts["processor"].endswith(torch.backends.cpu.get_cpu_capability())
    assert set(facts) == {"torch", "numpy", "processor", "device"}, "TF32 has no effect there"


def test_facts_of_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    facts = describe("cuda", tf32=True)
    assert (facts["gpu"], facts["tf32"]) == ("NVIDIA H100", "on")
    assert {"driver", "cuda", "cudnn", "cudnn_deterministic", "cudnn_benchmark"} <= set(facts)
    assert describe("cuda", tf32=False)["tf32"] == "off"


def test_driver_is_read_from_what_the_kernel_tells(tmp_path):
    file = tmp_path / "version"
    file.write_text(VERSION)
    assert driver(file) == "580.95.05"
    file.write_text(
        VERSION.replace("Open Kernel Module for x86_64  580.95.05", "x86_64 Kernel Module  550.54")
    )
    assert driver(file) == "550.54"
    assert driver(tmp_path / "none") == UNKNOWN


def test_facts_of_processes_that_differ_stand_side_by_side():
    assert of_all([{"gpu": "H200", "torch": "2"}, {"gpu": "H100", "torch": "2"}, {"torch": "2"}]) == {
        "gpu": "H100 and H200 and unknown",
        "torch": "2",
    }


@pytest.mark.parametrize(("tf32", "precision"), [(False, "ieee"), (True, "tf32")])
def test_flags_are_fixed_inside_the_block_and_restored_after_it(tf32, precision):
    before, inside = flags(), []

    def fail():
        with fixed_numerics(tf32):
            inside.append(flags())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [(precision, precision, True, False, 1)]
    assert flags() == before
