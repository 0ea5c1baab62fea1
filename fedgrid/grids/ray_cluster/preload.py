"""What Ray's workers of a local cluster do while the driver is not ready yet: they import torch.

In a thread, because a worker counts as free only after this module's import: Ray would start another one.
"""

import gc
import os
from importlib import import_module
from threading import Thread

from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS

# What Ray sets for an actor of at most one CPU; torch reads it when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(NEW_OBJECTS)
# Nothing but torch: no module that the main thread may be in the middle of importing imports this one.
Thread(target=import_module, args=["torch"], name="torch").start()
