"""``python -m redelta``: what runs here, and whether it computes what it should."""
from __future__ import annotations

import argparse
import json
import sys

import redelta

from . import _selfcheck


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
        print(json.dumps({"info": facts, "seed": options.seed, "failed": failed, "checks": [
            {"name": name, "passed": passed, "figure": figure} for name, passed, figure in checks]}))
        return 1 if failed else 0

    print(f"redelta {facts['version']}  {facts['library']}")
    print(f"threads {facts['threads']}  instruction sets: usable {' '.join(facts['isa_usable'])}; "
          f"built {' '.join(facts['isa_built'])}")
    for slot, (kernel, isa) in facts["kernels"].items():
        print(f"  {slot:<16} {kernel} ({isa})")
    print(f"self-check, seed {options.seed}")
    for name, passed, figure in checks:
        print(f"  {'ok  ' if passed else 'FAIL'}  {name}: {figure}")
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
