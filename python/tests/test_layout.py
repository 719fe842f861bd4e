"""Every ctypes mirror has the size and the offsets that the C compiler gives the header's structure."""
from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from redelta import _lib

INCLUDE = Path(__file__).resolve().parents[2] / "include"
pytestmark = pytest.mark.quick


def _fields(struct: type, prefix: str = ""):
    for name, kind in struct._fields_:
        yield prefix + name, getattr(struct, name).offset, ctypes.sizeof(kind)


def test_structures_match_the_c_compiler(tmp_path: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines, expected = [], {}
    for c_name, struct in _lib.C_NAMES.items():
        expected[c_name] = (0, ctypes.sizeof(struct))
        lines.append(f'  printf("%s 0 %zu\\n", "{c_name}", sizeof({c_name}));')
        for field, offset, size in _fields(struct):
            expected[f"{c_name}.{field}"] = (offset, size)
            lines.append(f'  printf("%s %zu %zu\\n", "{c_name}.{field}", offsetof({c_name}, {field}), '
                         f'sizeof((({c_name} *)0)->{field}));')
    for field, offset, size in _fields(_lib.RecordsMade):
        base = _lib.Records.made.offset
        expected[f"rd_records.made.{field}"] = (base + offset, size)
        lines.append(f'  printf("%s %zu %zu\\n", "rd_records.made.{field}", '
                     f'offsetof(rd_records, made.{field}), sizeof(((rd_records *)0)->made.{field}));')
    source = tmp_path / "probe.c"
    source.write_text("#include <redelta/redelta.h>\n#include <stdio.h>\nint main(void) {\n"
                      + "\n".join(lines) + "\n  return 0;\n}\n")
    probe = tmp_path / "probe"
    subprocess.run([compiler, "-std=c17", f"-I{INCLUDE}", str(source), "-o", str(probe)], check=True)
    printed = subprocess.run([str(probe)], check=True, capture_output=True, text=True).stdout
    actual = {name: (int(offset), int(size)) for name, offset, size in
              (line.split() for line in printed.splitlines())}
    assert actual == expected


def test_every_structure_of_the_headers_has_a_mirror() -> None:
    headers = "".join(path.read_text() for path in sorted((INCLUDE / "redelta").glob("*.h"))
                      if path.name in ("types.h", "exec.h", "core.h", "operators.h"))
    declared = set(re.findall(r"typedef struct (rd_\w+) \{", headers))
    assert declared == set(_lib.C_NAMES)
    for c_name, struct in _lib.C_NAMES.items():
        body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (c_name, c_name), headers, re.S).group(1)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        for name, _ in struct._fields_:
            assert re.search(rf"\b{name}\b", body), f"{c_name} has no field {name}"


def test_enumerations_match_the_headers() -> None:
    from redelta import core, operators
    types, text = {}, "".join(p.read_text() for p in (INCLUDE / "redelta").glob("*.h"))
    for name, value in re.findall(r"\b(RD_[A-Z0-9_]+) = (\d+)", text):
        types[name] = int(value)
    for name, code in _lib.DTYPE_CODES.items():
        short = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int32": "I32", "int64": "I64"}
        assert types[f"RD_{short[name]}"] == code
    for name, bit in _lib.ISA_BITS.items():
        assert types[f"RD_ISA_{name.upper()}"] == bit
    for name, code in operators._LAYOUTS.items():
        assert re.search(rf"\bRD_{name} = {code}\b", text)
    prefix = {"layout": "RD_", "gate": "RD_GATE_", "gate_axis": "RD_", "beta": "RD_BETA_",
              "head_map": "RD_HEADS_", "numerics": "RD_", "state_layout": "RD_STATE_",
              "qk_norm": "RD_QK_"}
    for field, start in prefix.items():
        for name, code in core._CHOICES[field].items():
            assert types[start + name.upper()] == code, (field, name)


def test_statuses_map_to_exceptions_by_name() -> None:
    from redelta import _errors
    kinds = {"RD_E_NULL": TypeError, "RD_E_DTYPE": TypeError, "RD_E_NOMEM": MemoryError,
             "RD_E_BUSY": RuntimeError, "RD_E_ARITHMETIC": RuntimeError, "RD_E_EXECUTOR": RuntimeError,
             "RD_E_ISA": RuntimeError, "RD_E_SYSTEM": RuntimeError}
    for status in range(1, 36):
        error = _errors.from_status(status, "text")
        assert error.status_name != "RD_E_?"
        assert isinstance(error, kinds.get(error.status_name, ValueError)), error.status_name
        assert str(error) == "text"
