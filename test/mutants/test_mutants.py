#!/usr/bin/env python3
"""`mutants check` refuses every kind of entry that no longer fits, and says which one.

usage: test_mutants.py MUTANTS
"""
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = "int f(int x) {\n  if (x) return 1;\n  x++;\n  x++;\n  return 0;\n}\n"
GOOD = {"file": "f.c", "line": "if (x) return 1;", "into": "if (!x) return 1;", "test": "unit.f", "why": "the other"}
CASES = [  # what is changed in a good entry (None: left out), and what must be said; "": accepted
    ({}, ""),
    ({"test": None, "equivalent": "a reason"}, ""),
    ({"line": "if (y) return 1;"}, "0 times"),
    ({"line": "x++;"}, "2 times"),
    ({"line": "return 1;\n  x++;"}, "not a line of an entry"),
    ({"file": "g.c"}, "no file g.c"),
    ({"into": "if (x) return 1;"}, "changes nothing"),
    ({"into": None}, "needs file"),
    ({"why": None}, "needs file"),
    ({"test": None}, "needs file"),
    ({"equivalent": "a reason"}, "needs file"),
    ({"tset": "unit.f"}, "not a line of an entry"),
]


def main(mutants):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "f.c").write_text(SOURCE)
        for change, wanted in [*CASES, (None, "0 entries fit")]:
            path = root / "test/mutants/a.list"
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = {} if change is None else {**GOOD, **change}
            text = "".join(f"{key}: {value}\n" for key, value in entry.items() if value is not None)
            path.write_text(f"# a list\n\n{text}\n")
            done = subprocess.run([sys.executable, mutants, "check", root], capture_output=True, text=True)
            right = done.returncode == (wanted != "") and wanted in done.stdout and not done.stderr
            passed, failed = passed + right, failed + (not right)
            if not right:
                print(f"FAIL {change}: expected '{wanted}', got {done.returncode}:\n{done.stdout}{done.stderr}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
