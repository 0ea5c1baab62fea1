"""Opens a pretended GPU, as `fedgrid.grids.ray_cluster.open_gpu` opens a real one: `COMMAND`.

What GPUs are like is in the variable PRETENDED, as JSON by name: `free` and `total` bytes, `cause` of a
failure, `alone` for one that takes a process at a time, `hangs`, `dies`. A GPU that is named after the
command is busy.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import gettempdir

COMMAND = (sys.executable, "-P", __file__)
BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"


def opened(gpu: dict[str, object], mark: Path) -> dict[str, object]:
    """Return what is said of a GPU; `mark` is there while a process has one that it takes alone."""
    if gpu.get("alone"):
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return {"cause": BUSY}
    return gpu


def main() -> None:
    """Do what the module says."""
    name = os.environ["CUDA_VISIBLE_DEVICES"]
    gpu = {"cause": BUSY} if name in sys.argv[1:] else json.loads(os.environ["PRETENDED"])[name]
    if gpu.get("dies"):
        raise RuntimeError("CUDA error: unknown error")
    sys.stdin.readline()
    if not gpu.get("hangs"):
        print(json.dumps(opened(gpu, Path(gettempdir()) / f"gpu-{name}")), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
