"""An analysis that fails with the GPU on which its job is done; without torch, which takes long to import."""

import os
from time import monotonic, sleep

from fedgrid.engine.federation.errors import RunError
from fedgrid.grids.analyses.analysis import Analysis, Artifacts, Context, Job

WAIT = 120.0
"""Seconds in which the other process must start."""


class WhereAmI(Analysis):
    """Fails with its process and the GPU that Ray gives it now, once two processes are at work.

    Without the wait one that starts sooner could do all jobs.
    """

    name = "where"
    on_gpu = True

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Fail with the process and the GPU; a failure needs no finished run."""
        (context.data_dir / str(os.getpid())).touch()
        end = monotonic() + WAIT
        while len(list(context.data_dir.iterdir())) < 2 and monotonic() < end:
            sleep(0.05)
        raise RunError(f"{os.getpid()} {os.environ['CUDA_VISIBLE_DEVICES']} {context.device}")
