"""`fedgrid doctor` on GPUs: a driver and torch by a script, none of this machine."""

from types import SimpleNamespace

import pytest
import torch

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.ray_cluster.gpus import Gpu
from fedgrid.grids.upkeep import gpus

GIB = 2**30


class NvmlError(Exception):
    pass


class Nvml:
    """NVIDIA's library: cards of 40 GiB, as a script describes them."""

    NVMLError = NvmlError

    def __init__(self, *cards, driver="580.65.06", cuda=13000):
        self.cards, self.driver, self.cuda = cards, driver, cuda

    def nvmlInit(self):
        if not self.driver:
            raise NvmlError("NVML Shared Library Not Found")

    def nvmlShutdown(self):
        pass

    def nvmlSystemGetDriverVersion(self):
        return self.driver

    def nvmlSystemGetCudaDriverVersion(self):
        return self.cuda

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return {"index": index, **self.cards[index]}

    def nvmlDeviceGetName(self, card):
        return card.get("name", "NVIDIA A100")

    def nvmlDeviceGetUUID(self, card):
        return card if isinstance(card, str) else f"GPU-{'abcd'[card['index']] * 4}"

    def nvmlDeviceGetMemoryInfo(self, card):
        if card.get("secret"):
            raise NvmlError("Insufficient Permissions")
        return SimpleNamespace(free=card.get("free", 39 * GIB), total=40 * GIB)

    def nvmlDeviceGetComputeMode(self, card):
        return card.get("mode", 0)

    def nvmlDeviceGetMigMode(self, card):
        if "parts" not in card:
            raise NvmlError("Not Supported")
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, card):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card, place):
        if place >= len(card["parts"]):
            raise NvmlError("Not Found")
        return card["parts"][place]


@pytest.fixture
def look(monkeypatch, tmp_path):
    """Return a function that looks at cards which torch can use, or not, for a cause."""
    for name in (gpus.SHOWN, gpus.ORDER, "SLURM_GPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(gpus.PIPES, str(tmp_path))

    def opens(cards):
        if any(card.get("busy") for card in cards):
            raise ConfigError("GPU 0 cannot be used: CUDA error: devices are busy or unavailable")
        return [Gpu(f"GPU {place}", 38 * GIB, 40 * GIB) for place in range(len(cards))]

    def look(
        *cards,
        usable=True,
        shown=None,
        cuda="13.0",
        kernels=("sm_80", "compute_90"),
        capability=(8, 0),
        **nvml,
    ):
        if shown is not None:
            monkeypatch.setenv(gpus.SHOWN, shown)
        monkeypatch.setattr(gpus, "_nvml", lambda: Nvml(*cards, **nvml))
        monkeypatch.setattr(gpus, "open_here", lambda request: opens(cards))
        monkeypatch.setattr(gpus, "why", lambda: "The NVIDIA driver is too old (found version 11040)")
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: usable)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: list(kernels))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: capability)
        of = SimpleNamespace(name="NVIDIA A100", major=capability[0], minor=capability[1])

        def properties(place):
            if cards[place].get("lost"):
                raise RuntimeError("CUDA error: lost\nCUDA kernel errors might be reported asynchronously")
            return of

        monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
        return gpus.look()

    return look


def test_machine_without_a_driver_is_well(look):
    found = look(driver="", usable=False)
    assert found.problems == []
    assert "Shared Library Not Found" in found.facts["driver"]
    assert "grids train on the CPU" in found.facts["GPUs"]


def test_gpu_that_slurm_has_granted_and_no_driver_answers_for_is_a_problem(look, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    [problem] = look(driver="", usable=False).problems
    assert "granted 2" in problem
    assert "Shared Library Not Found" in problem


@pytest.mark.parametrize(
    ("card", "problem"),
    [({"busy": True}, "GPU 0 cannot be used"), ({}, "does not start here: CUDA error: lost;")],
)
def test_gpu_at_which_cuda_itself_fails_is_told_in_a_line(look, card, problem):
    """Torch raises when it is asked for names, though it says that GPUs are there."""
    found = look({**card, "lost": True})
    assert found.facts["CUDA sees"] == "nothing (CUDA error: lost)"
    [told] = found.problems
    assert problem in told
    assert "\n" not in told


def test_gpus_that_can_be_used_are_described(look):
    found = look({}, {"free": 10 * GIB})
    assert found.problems == []
    assert found.facts["torch"].endswith("built for CUDA 13.0, which needs driver 580 or later")
    assert found.facts["driver"] == "580.65.06, made for CUDA 13.0"
    assert found.facts["GPU 1"] == "NVIDIA A100, 10.0 GiB free of 40.0 GiB, compute mode default"
    assert found.facts["CUDA sees"] == "0: NVIDIA A100 (sm_80), 1: NVIDIA A100 (sm_80)"
    assert found.facts["opened"] == "GPU 0 with 38.0 GiB for clients, GPU 1 with 38.0 GiB for clients"
    assert found.facts["MPS"] == "off"


def test_driver_that_is_too_old_is_a_problem_with_the_cause(look):
    [problem] = look({}, usable=False, driver="470.82.01", cuda="13.0").problems
    for part in ("1 GPU is here", "too old (found version 11040)", "update the driver", "--gpus-per-actor 0"):
        assert part in problem


def test_torch_for_cpus_is_a_problem_where_there_are_gpus(look):
    [problem] = look({}, {}, usable=False, cuda=None).problems
    assert "2 GPUs are here" in problem
    assert "built for CPUs" in problem


@pytest.mark.parametrize(
    ("card", "parts"),
    [
        ({"mode": 2}, ("GPU 0", "prohibited", "nvidia-smi -i 0 -c 0", gpus.SHOWN)),
        ({"mode": 3}, ("exclusive", "one process", "MPS", "--gpus-per-actor 1")),
        ({"free": GIB // 4}, ("0.2 GiB free", "nvidia-smi")),
        ({"parts": ["MIG-a", "MIG-b"]}, ("2 parts", "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b")),
        ({"parts": []}, ("MIG on and no part",)),
    ],
    ids=["prohibited", "exclusive", "full", "parts", "no parts"],
)
def test_gpu_that_clients_cannot_share_is_a_problem(look, card, parts):
    [problem] = look(card).problems
    assert all(part in problem for part in parts)


def test_gpu_that_cannot_be_opened_is_a_problem_with_the_cause(look):
    assert look({"busy": True}).problems == [
        "GPU 0 cannot be used: CUDA error: devices are busy or unavailable"
    ]


def test_exclusive_mode_is_right_with_mps(look, tmp_path):
    (tmp_path / "control").touch()
    found = look({"mode": 3})
    assert found.problems == []
    assert found.facts["MPS"] == f"on, pipes in {tmp_path}"


@pytest.mark.parametrize("shown", ["0", "GPU-aa", "GPU-aaaa"])
def test_gpu_that_is_hidden_is_no_problem(look, shown):
    found = look({}, {"mode": 2}, shown=shown)
    assert found.problems == []
    assert "hidden by CUDA_VISIBLE_DEVICES" in found.facts["GPU 1"]
    assert "hidden" not in found.facts["GPU 0"]


def test_no_gpu_is_shown(look):
    found = look({}, usable=False, shown="")
    assert found.problems == []
    assert "shows none" in found.facts["GPUs"]


def test_parts_that_are_named_are_right(look):
    assert look({"parts": ["MIG-a", "MIG-b"]}, shown="MIG-b").problems == []


@pytest.mark.parametrize(
    ("capability", "kernels", "count"),
    [
        ((8, 6), ("sm_80",), 0),
        ((8, 0), ("sm_86",), 1),
        ((9, 0), ("sm_80",), 1),
        ((9, 0), ("sm_80", "compute_80"), 0),
        ((6, 1), ("sm_70", "compute_90"), 1),
        ((12, 0), ("sm_90", "sm_120"), 0),
    ],
)
def test_gpu_without_kernels_is_a_problem(look, capability, kernels, count):
    """Code of a generation runs on its later members; intermediate code on all that are newer."""
    problems = look({}, capability=capability, kernels=kernels).problems
    assert len(problems) == count
    assert all(
        "has no kernels" in problem and f"sm_{capability[0]}{capability[1]}" in problem
        for problem in problems
    )


def test_what_the_driver_does_not_tell_is_no_problem(look):
    found = look({"secret": True})
    assert found.problems == []
    assert "memory not told" in found.facts["GPU 0"]


def test_order_of_unequal_gpus_is_named(look, monkeypatch):
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in look({}, {"name": "NVIDIA T4"}).facts["order"]
    monkeypatch.setenv(gpus.ORDER, "PCI_BUS_ID")
    assert "order" not in look({}, {"name": "NVIDIA T4"}).facts
