"""Does the model test have teeth? Faults are planted in a copy of the step loop; it must find each."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import redelta

PACKAGE, TESTS = Path(redelta.__file__).parent, Path(__file__).parent

#: (what goes wrong, text of loop.py, its replacement). The first six were faults once.
FAULTS = [
    ("a verified sequence moves on", "        self._idle(name, members)\n", ""),
    ("a slot named twice", "if len(set(members)) < len(members):", "if False:"),
    ("counts cut to int", '_errors.integers("counts", counts), step', "[int(c) for c in counts], step"),
    ("counts cut to 32 bits", '_errors.integers("counts", counts), step',
     '[c % 2**32 for c in _errors.integers("counts", counts)], step'),
    ("slots cut to int", 'tuple(_errors.integers("slots", slots))', "tuple(int(slot) for slot in slots)"),
    ("the pool is read without what was accepted", "def _reading(self) -> None:\n        self._loop.sync()",
     "def _reading(self) -> None:\n        pass"),
    ("leave forgets the others' step", "            if not step.waiting:\n                self._end(step)",
     "            self._end(step)"),
    ("the pool is written without what was accepted", "else [slot])\n        self._loop.sync()", "else [slot])"),
    ("a verified slot of the pool is written",
     '        self._loop._idle("pool", waiting if slot is None else [slot])\n', ""),
    ("leave forgets an accepted step", "        self.sync()\n        step = self._step\n        if step is not None and slot",
     "        step = self._step\n        if step is not None and slot"),
    ("fork before the commit", "        self.sync()\n        twin", "        twin"),
    ("prefill and decode before the commit", "        self._idle(name, members)\n        self.sync()",
     "        self._idle(name, members)"),
    ("another verify before the commit", "                self.sync()\n                before", "                before"),
    ("commit and verify of other members", "before.members == members", "len(before.members) == len(members)"),
    ("accept twice", "if step is None or step.accepted is not None:\n            raise", "if step is None:\n            raise"),
    ("a count above the length", "<= lengths[slot]:", "<= self.capacity:"),
    ("a count too few", "len(given) != len(waiting)", "len(given) > len(waiting)"),
    ("candidates of one that left", "kept.get(slot, 0)", "kept.get(slot, 1)"),
    ("a failed verify forgets the step", "            self._put_back(records)\n            raise",
     "            self._put_back(records)\n            self._step = None\n            raise"),
    ("join leaves the old state", "        self._states.reset(slot)\n", ""),
    ("leave loses the slot", "        self._free.append(slot)\n", ""),
]


@pytest.mark.parametrize("old, new", [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_the_model_finds(old: str, new: str, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "redelta")
    loop = tmp_path / "redelta" / "loop.py"
    text = loop.read_text()
    assert text.count(old) == 1
    loop.write_text(text.replace(old, new))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", str(TESTS / "pytest.ini"),
         "--rootdir", str(TESTS), str(TESTS / "test_loop_model.py")], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "REDELTA_LOOP_SHRINK": "0",
             "REDELTA_LIBRARY": redelta.info()["library"]})
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout + done.stderr
