#!/usr/bin/env python3
"""Checks that every kernel source has its line in registry.def and every line its source.

usage: check_kernels.py [SOURCE_DIR]

The suffix of a line begins with the folder of its file, its instruction set is that folder in capitals,
and the file is the slot's (rows_8x16.c serves slot rows) or convert.c. SOFT has all in scalar/soft.c. What the registry lists, the
kernel harness runs, so no kernel is untested. Exit status 0 when everything holds, 1 when not.
"""
import re
import sys
from pathlib import Path

LINE = re.compile(r'^RDI_(ROWS|LANES|KERNEL|FAST_PAIRS|FAST)\(([^"]*)"([^"]+)"', re.M)


def problems(kernels):
    listed = set()
    for kind, arguments, file in LINE.findall((kernels / "registry.def").read_text()):
        names = [a.strip() for a in arguments.split(",") if a.strip()]
        slot = names.pop(0) if kind in ("KERNEL", "FAST") else {"FAST_PAIRS": "pairs"}.get(kind, kind.lower())
        suffix, isa = names
        folder, name = file.split("/")
        listed.add(file)
        if not (kernels / file).is_file():
            yield f"{slot}_{suffix}: no file {file}"
        if suffix != folder and not suffix.startswith(folder + "_"):
            yield f"{slot}_{suffix}: the suffix does not begin with {folder}"
        if isa != folder.upper() and (isa, folder) != ("SOFT", "scalar"):
            yield f"{slot}_{suffix}: {isa} is not the instruction set of {folder}"
        form = suffix[len(folder):]
        if name not in (f"{slot}{form}.c", "convert.c") and (isa, name) != ("SOFT", "soft.c"):
            yield f"{slot}_{suffix}: {name} should be {slot}{form}.c"
    for path in sorted(kernels.glob("*/*.c")):
        if str(path.relative_to(kernels)) not in listed:
            yield f"{path.relative_to(kernels)} has no line in registry.def"
    if len(listed) < 4:
        yield "registry.def was not understood"


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = list(problems(root / "src/kernels"))
    print("\n".join(found) or "every kernel is registered")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
