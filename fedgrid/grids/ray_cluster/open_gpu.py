"""Opens the GPU that this process is shown, as a client actor does; a program of its own, started by `gpus`.

It waits for a line on its standard input, opens the GPU, answers with a line of JSON, and keeps the GPU open
until it is killed.
"""

import json
import sys
from collections.abc import Mapping

from fedgrid.engine.runtime.clients.gpu_errors import telling


def opened() -> Mapping[str, int | str]:
    """Return the GPU's model and its free and total memory in bytes, or the cause.

    This process's context is taken off.
    """
    import torch

    try:
        # A context, memory, a kernel and its result.
        torch.ones(1, device="cuda").add_(1).item()
        free, total = torch.cuda.mem_get_info()
        model = torch.cuda.get_device_name()
    except (RuntimeError, AssertionError) as error:
        return {"cause": telling(error)}
    return {"free": free, "total": total, "model": model}


def main() -> None:
    """Do what the module says."""
    # Torch is imported while others import it too.
    import torch  # noqa: F401

    sys.stdin.readline()
    print(json.dumps(opened()), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
