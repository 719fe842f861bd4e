"""What the annotations promise: the names C knows, and types that a strict checker follows."""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import redelta
from redelta import _lib, _types, core, operators

PROGRAM = '''
import numpy as np
import numpy.typing as npt
import redelta

F = npt.NDArray[np.float32]
x: F = np.zeros((1, 2, 1, 4), np.float32)
problem = redelta.Problem(Hk=1, Hv=1, K=4, V=4, max_batch=1, max_tokens=2, gate="softplus")
plan, pool, loop = redelta.Plan(problem), redelta.StatePool.for_problem(problem, 1), redelta.StepLoop(problem, 2, 2)
a: F = plan.prefill(x, x, x, None, x, final=pool)
b: F = loop.verify([0], x, x, x, None, x)
c, d = redelta.chunk_gated_delta_rule(x, x, x, x, x, np.zeros(1, np.int32))
e: F = c + d

class Mine:
    def __dlpack__(self, stream: object = None) -> object:
        return None

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

records = plan.records(1, 2)
h: F = plan.verify(x, x, x, None, x, state=pool, records=records)
plan.commit(records, np.ones(1, np.int32), state=pool)
i: npt.NDArray[np.int32] = records.lengths
i = records.parents
words: list[str] = [plan.info()["rows_kernel"], *redelta.info()["isa_usable"], *redelta.info()["kernels"], repr(loop)]
numbers: list[int] = [plan.info()["threads"], records.nbytes, redelta.get_num_threads(), loop.join(), len(loop.active)]
j: float = plan.info()["row_block"] / 2

f: Mine = plan.decode(Mine(), Mine(), Mine(), None, Mine(), state=pool)
redelta.Problem(Hk=1, Hv=1, K=4, V=4, max_batch=1, max_tokens=2, gate="soft")  # refused
plan.prefill([1.0], x, x, x, x)  # refused
redelta.StatePool(1, 1, 1, 1, layout="XY")  # refused
redelta.set_isa("mmx")  # refused
g: str = plan.prefill(x, x, x, x, x)  # refused
'''


@pytest.mark.quick
def test_literals_are_the_names_that_c_knows() -> None:
    hints = typing.get_type_hints(redelta.Problem)
    for field, known in core._CHOICES.items():
        names = set(typing.get_args(hints[field]))
        assert names <= set(known), field
        if not field.endswith("_dtype"):
            assert names == set(known), field
        elif "bfloat16" not in names:
            assert field in ("record_dtype", "decay_dtype")
    for field in dataclasses.fields(redelta.Problem):
        assert field.name in core._CHOICES or field.type in ("int", "float", "float | None"), field.name
    assert set(typing.get_args(_types.LayoutQKV)) == set(operators._LAYOUTS)
    assert set(typing.get_args(_types.Isa)) == set(_lib.ISA_BITS)
    for field in ("record_dtype", "decay_dtype"):
        with pytest.raises((TypeError, ValueError)):
            redelta.Plan(redelta.Problem(1, 1, 4, 4, 1, 1, **{field: "bfloat16"}))


def _refused() -> list[int]:
    return [i for i, line in enumerate(PROGRAM.splitlines(), 1) if "# refused" in line]


def test_mypy_agrees(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="not run: mypy is not installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--disallow-any-expr", "--follow-imports=silent",
         "--cache-dir", str(tmp_path / "cache"), str(program)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "MYPYPATH": str(Path(redelta.__file__).parents[1])})
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    alias = PROGRAM.splitlines().index("F = npt.NDArray[np.float32]") + 1  # in which NumPy itself has an Any
    assert sorted({*found} - {alias}) == _refused(), done.stdout + done.stderr


def test_pyright_agrees(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="not run: pyright is not installed")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({
        "include": ["program.py"], "typeCheckingMode": "strict", "extraPaths": [str(Path(redelta.__file__).parents[1])]}))
    done = subprocess.run([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p",
                           str(tmp_path)], capture_output=True, text=True, timeout=300)
    found = {d["range"]["start"]["line"] + 1 for d in json.loads(done.stdout)["generalDiagnostics"]
             if d["severity"] == "error"}
    assert sorted(found) == _refused(), done.stdout + done.stderr
