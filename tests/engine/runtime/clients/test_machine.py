"""What bits depend on besides the setup, and how it is fixed while a client trains."""

import numpy as np
import pytest
import torch

from fedgrid.engine.federation.clients.process import fix_numerics
from fedgrid.engine.runtime.clients import machine
from fedgrid.engine.runtime.clients.machine import (
    UNKNOWN,
    describe_machine,
    explain_slow_precision,
    find_driver_version,
    select_relevant_machines,
)

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
    here = describe_machine("cpu")
    assert here["torch build"] == torch.__version__
    assert here["numpy"] == np.__version__
    assert torch.backends.cpu.get_cpu_capability() in here["processor"].split(", ")
    assert set(here) == {"device", "torch build", "numpy", "processor", "bfloat16"}


@pytest.mark.parametrize(
    ("text", "maker"),
    [
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t: 17\n", "AuthenticAMD 25"),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\n\nvendor_id\t: GenuineIntel\n", "GenuineIntel 6"),
    ],
)
def test_processors_of_other_makers_are_other_machines(text, maker, tmp_path):
    (tmp_path / "cpuinfo").write_text(text)
    assert machine._find_maker(tmp_path / "cpuinfo") == maker


@pytest.mark.parametrize("name", ["MKL_CBWR", "OPENBLAS_CORETYPE", "ONEDNN_MAX_CPU_ISA"])
def test_instructions_that_a_user_chooses_are_another_machine(name, monkeypatch):
    monkeypatch.setenv(name, "ONE")
    one = describe_machine("cpu")
    monkeypatch.setenv(name, "OTHER")
    assert one != describe_machine("cpu")


@pytest.mark.parametrize(
    ("capabilities", "told"),
    [
        (
            {"avx512_f": True, "avx512_bf16": True, "amx_bf16": True, "avx10_1": False},
            "amx_bf16, avx512_bf16",
        ),
        ({"avx512_f": True, "avx512_bf16": False, "l1d_cache_size": 32768}, "emulated"),
        ({"neon": True, "sve_bf16": True, "bf16": True}, "bf16, sve_bf16"),
    ],
)
def test_a_processor_is_told_by_its_instructions_for_bfloat16(capabilities, told, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert describe_machine("cpu")["bfloat16"] == told


def test_older_torch_does_not_know_the_instructions(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert describe_machine("cpu")["bfloat16"] == UNKNOWN


AMX, AVX512, OLD = (
    {"processor": "AVX512", "bfloat16": each} for each in ("amx_bf16", "avx512_bf16", "emulated")
)


def test_instructions_for_bfloat16_matter_only_to_runs_in_bfloat16():
    assert select_relevant_machines([AMX, AVX512, AMX], "bfloat16") == [AMX, AVX512]
    assert select_relevant_machines([AMX, AVX512, OLD], "float32") == [{"processor": "AVX512"}]


def test_emulated_bfloat16_is_told_with_what_to_choose_instead():
    assert explain_slow_precision([AMX, AVX512], "bfloat16") is None
    assert explain_slow_precision([OLD], "float32") is None
    for part in ("training.precision = bfloat16", "emulates", "float32"):
        assert part in explain_slow_precision([AMX, OLD], "bfloat16")


def test_a_machine_with_a_gpu_is_also_its_model_driver_and_libraries(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    machine = describe_machine("cuda")
    assert machine["GPU"] == "NVIDIA H100"
    assert {"driver", "CUDA", "cuDNN"} <= set(machine)


def test_driver_is_read_from_what_the_kernel_tells(tmp_path):
    file = tmp_path / "version"
    file.write_text(VERSION)
    assert find_driver_version(file) == "580.95.05"
    file.write_text(
        VERSION.replace("Open Kernel Module for x86_64  580.95.05", "x86_64 Kernel Module  550.54")
    )
    assert find_driver_version(file) == "550.54"
    assert find_driver_version(tmp_path / "none") == UNKNOWN


@pytest.mark.parametrize(("tf32", "precision"), [(False, "ieee"), (True, "tf32")])
def test_flags_are_fixed_inside_the_block_and_restored_after_it(tf32, precision):
    before, inside = flags(), []

    def fail():
        with fix_numerics(tf32):
            inside.append(flags())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [(precision, precision, True, False, 1)]
    assert flags() == before
