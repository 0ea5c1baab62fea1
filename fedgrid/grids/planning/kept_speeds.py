"""Speeds of this processor, kept in the user's cache: a busy machine is slower, so the fastest counts."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from platform import machine, processor

from fedgrid.engine.runtime.storage.remembered import recall, remember
from fedgrid.grids.planning.calibrate import Speed, Workload, calibrate

FOLDER = "speeds"
CPUINFO = Path("/proc/cpuinfo")


def fastest(workloads: Sequence[Workload], device: str) -> Mapping[Workload, Speed]:
    """Time each workload here, and return the fastest times that this kind of processor or GPU has had.

    Raises:
        ConfigError, RunError: as `calibrate`.
    """
    return {workload: _kept(workload, device, now) for workload, now in calibrate(workloads, device).items()}


def named(device: str) -> str:
    """Return the name of this machine's processor, or GPU."""
    if device != "cpu":
        import torch

        return torch.cuda.get_device_name()
    with suppress(OSError):
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return processor() or machine()


def _kept(workload: Workload, device: str, now: Speed) -> Speed:
    """Return the least of what was kept and of `now`, and keep it."""
    key = f"{named(device)}, torch {version('torch')}, {workload}"
    kept, fastest_ever = recall(FOLDER, key), now
    with suppress(KeyError, TypeError, ValueError):
        before = Speed(**{part: float(kept[part]) for part in asdict(now)})
        trains = min(now, before, key=lambda speed: speed.train)
        fastest_ever = Speed(trains.turn, trains.train, min(now.test, before.test))
    remember(FOLDER, key, {"of": key, **asdict(fastest_ever)})
    return fastest_ever
