"""What bits depend on besides the setup, and how it is fixed while a client trains."""

import numpy as np
import pytest
import torch

from fedgrid.engine.clients.machine import UNKNOWN, driver, fixed_numerics, this_machine

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


def test_a_machine_is_its_libraries_and_processor():
    machine = this_machine("cpu")
    assert machine["torch build"] == torch.__version__
    assert machine["numpy"] == np.__version__
    assert machine["processor"] == torch.backends.cpu.get_cpu_capability()
    assert set(machine) == {"device", "torch build", "numpy", "processor"}


def test_a_machine_with_a_gpu_is_also_its_model_driver_and_libraries(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    machine = this_machine("cuda")
    assert machine["GPU"] == "NVIDIA H100"
    assert {"driver", "CUDA", "cuDNN"} <= set(machine)


def test_driver_is_read_from_what_the_kernel_tells(tmp_path):
    file = tmp_path / "version"
    file.write_text(VERSION)
    assert driver(file) == "580.95.05"
    file.write_text(
        VERSION.replace("Open Kernel Module for x86_64  580.95.05", "x86_64 Kernel Module  550.54")
    )
    assert driver(file) == "550.54"
    assert driver(tmp_path / "none") == UNKNOWN


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
