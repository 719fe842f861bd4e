"""``python -m redelta``: what runs here, and whether it computes what it should."""
from __future__ import annotations

import argparse
import json
import sys

import redelta

from . import _cpus, _selfcheck


def main(argv: list[str] | None = None) -> int:
    """Prints :func:`redelta.info` and runs the self-check; 0 when every line holds."""
    parser = argparse.ArgumentParser(prog="python -m redelta", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print machine-readable output")
    parser.add_argument("--seed", type=int, default=1, help="seed of the self-check (default 1)")
    options = parser.parse_args(argv)

    facts = redelta.info()
    checks = _selfcheck.run(options.seed)
    failed = sum(1 for _, passed, _ in checks if not passed)
    if options.json:
        print(json.dumps({"info": facts, "seed": options.seed, "failed": failed, "about": _selfcheck.ABOUT, "checks": [
            {"name": name, "passed": passed, "figure": figure} for name, passed, figure in checks]}))
        return 1 if failed else 0

    print(f"redelta {facts['version']}  {facts['library']}")
    limits = ", ".join(f"{name} {count}" for name, count in _cpus.limits().items())
    print(f"threads {facts['threads']} ({limits})")
    print(f"instruction sets: usable {' '.join(facts['isa_usable'])}; built {' '.join(facts['isa_built'])}")
    print("kernels chosen")
    for slot, (kernel, isa) in facts["kernels"].items():
        print(f"  {slot:<16} {kernel} ({isa})")
    print(f"self-check on {_selfcheck.ABOUT}, seed {options.seed}")
    for name, passed, figure in checks:
        print(f"  {'ok  ' if passed else 'FAIL'}  {name}: {figure}")
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    if not failed:
        print("So this library, on this machine, computes the delta rule, and prefill, decode and verify with "
              "commit agree on every bit.\nNot looked at: PyTorch, half precision, FAST, speed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
