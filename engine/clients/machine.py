"""What the numbers of a training depend on beside its code: the library that computes, and the hardware."""

from collections.abc import Mapping

Machine = Mapping[str, str]
"""Name -> version, model or setting, as in `torch build` -> `2.4.0+cpu`. Machines alike have equal values."""


def this_machine(device: str) -> Machine:
    """Return what training on `device`, as torch calls it, depends on here."""
    import numpy
    import torch

    processor = torch.backends.cpu.get_cpu_capability()
    gpu = {"GPU": torch.cuda.get_device_name(0)} if device.startswith("cuda") else {}
    return {
        "device": device,
        "torch build": torch.__version__,
        "numpy": numpy.__version__,
        "processor": processor,
        **gpu,
    }
