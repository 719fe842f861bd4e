"""How many threads a process should use when nobody says: its CPUs, its quota, and OMP_NUM_THREADS."""
from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Iterator, Mapping

_MOST = 1024  # of the C library


def default_threads(root: str = "/", environ: Mapping[str, str] | None = None) -> int:
    """The smallest of: the CPUs this process may run on, its cgroup's CPU quota rounded up, and the first
    number of ``OMP_NUM_THREADS`` (what is not a positive number there is ignored, as OpenMP does)."""
    return max(1, min(_MOST, *limits(root, environ).values()))


def limits(root: str = "/", environ: Mapping[str, str] | None = None) -> dict[str, int]:
    """What bounds the default, and to how many threads."""
    environ = os.environ if environ is None else environ
    found = {"usable CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
             else os.cpu_count() or 1}
    quota = cpu_quota(root)
    if quota is not None:
        found["CPU quota"] = math.ceil(quota)
    wanted = environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isascii() and wanted.isdigit() and int(wanted[:9]) > 0:
        found["OMP_NUM_THREADS"] = int(wanted[:9])
    return found


def cpu_quota(root: str = "/") -> float | None:
    """CPUs' worth of time that control groups (version 1 or 2) allow this process; None: no limit."""
    return min(_quotas(Path(root)), default=None)


def _quotas(root: Path) -> Iterator[float]:
    """The limit of the process's group and of every group above it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            top = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            top = next((path for path in (root / "sys/fs/cgroup/cpu", root / "sys/fs/cgroup" / controllers)
                        if path.is_dir()), root / "sys/fs/cgroup/cpu")
        else:
            continue
        # A container sees its own group as the top; the path may then lead nowhere.
        parts = [part for part in group.split("/") if part and part != ".."]
        for depth in range(len(parts) + 1):
            folder = top.joinpath(*parts[:depth])
            if controllers:
                limit = f"{_text(folder / 'cpu.cfs_quota_us')} {_text(folder / 'cpu.cfs_period_us')}"
            else:
                limit = _text(folder / "cpu.max")
            try:
                quota, period = map(int, limit.split())
            except ValueError:  # "max 100000", or no such file
                continue
            if quota > 0 and period > 0:
                yield quota / period


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
