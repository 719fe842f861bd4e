"""``python -m redelta``, finding the library, and the examples."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import redelta
from redelta import __main__ as _main
from redelta import _selfcheck

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=110,
                          env={**os.environ, **environment})


@pytest.mark.quick
def test_self_check() -> None:
    done = python("-m", "redelta")
    assert done.returncode == 0, done.stdout + done.stderr
    assert redelta.info()["version"] in done.stdout and "0 failed" in done.stdout
    # In words: on what, and what held, with the figure and its bound.
    for words in ("3 sequences of 8 random tokens", "recurrence in float64", "allowed 2e-06", "1 and 3 threads",
                  "usable CPUs", "computes the delta rule", "Not looked at: PyTorch", *redelta.info()["isa_built"]):
        assert words in done.stdout, words
    done = python("-m", "redelta", "--json", "--seed", "7")
    facts = json.loads(done.stdout)
    assert done.returncode == 0 and facts["failed"] == 0 and facts["seed"] == 7
    assert facts["info"]["kernels"] and all(check["passed"] for check in facts["checks"])
    assert python("-m", "redelta", "--nonsense").returncode == 2


def test_self_check_has_teeth(monkeypatch: Any, capsys: Any) -> None:
    oracle = _selfcheck._oracle
    monkeypatch.setattr(_selfcheck, "_oracle", lambda p, x: oracle(p, {**x, "beta": x["beta"] + 1e-3}))
    assert [passed for _, passed, _ in _selfcheck.run(1)].count(False) == 1
    assert _main.main([]) == 1
    out = capsys.readouterr().out
    assert "FAIL" in out and "1 failed" in out and "computes the delta rule" not in out


def test_self_check_says_what_it_does() -> None:
    p = _selfcheck._problem()
    for words in (f"{p.Hk} key heads", f"{p.Hv} value heads", f"K = {p.K}", f"V = {p.V}", p.gate, p.qkv_dtype,
                  f"{p.max_batch} sequences", f"{p.max_tokens} random tokens"):
        assert words in _selfcheck.ABOUT, words


def test_a_missing_library_is_explained(tmp_path: Path) -> None:
    done = python("-c", "import redelta", REDELTA_LIBRARY=str(tmp_path / "none.so"))
    assert done.returncode == 1 and "ImportError" in done.stderr and "REDELTA_LIBRARY" in done.stderr
    wrong = tmp_path / "wrong.so"
    wrong.write_bytes(b"not a library")
    done = python("-c", "import redelta", REDELTA_LIBRARY=str(wrong))
    assert "ImportError" in done.stderr and str(wrong) in done.stderr


def test_import_needs_neither_torch_nor_ml_dtypes() -> None:
    done = python("-c", "import sys; sys.modules['torch'] = sys.modules['ml_dtypes'] = None; import redelta; "
                  "from redelta.__main__ import main; sys.exit(main([]))")
    assert done.returncode == 0, done.stderr
    done = python("-c", "import redelta, sys; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_redelta_torch_says_what_it_needs() -> None:
    torch = pytest.importorskip("torch")
    if hasattr(torch.library, "custom_op"):
        pytest.skip("this torch has what it needs")
    with pytest.raises(ImportError, match="2.4"):
        import redelta.torch  # noqa: F401


def test_everything_public_is_documented() -> None:
    for name in redelta.__all__:
        thing = getattr(redelta, name)
        assert thing.__doc__, name
        for attribute, value in vars(thing).items() if isinstance(thing, type) else ():
            if callable(value) and not attribute.startswith("_"):
                assert value.__doc__, f"{name}.{attribute}"
    assert (Path(redelta.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("script, arguments, expected", [
    ("stability.py", ["--runs", "4", "--tokens", "64"], "bit-identical"),
    ("speculative_serving.py", ["--steps", "30"], "bit for bit"),
    ("tree_speculation.py", ["--steps", "20"], "bit for bit"),
])
def test_examples(script: str, arguments: list, expected: str) -> None:
    done = python(str(EXAMPLES / script), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert expected in done.stdout


def test_window_plot(tmp_path: Path) -> None:
    out = tmp_path / "window.svg"
    done = python(str(EXAMPLES / "window_plot.py"), "--quick", "-o", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert out.read_text().lstrip().startswith(("<?xml", "<svg"))


@pytest.mark.quick
def test_window_plot_checks_before_it_measures(tmp_path: Path) -> None:
    script = str(EXAMPLES / "window_plot.py")
    block = "import runpy, sys; sys.argv = sys.argv[1:]; sys.modules['matplotlib'] = None; "
    started = time.monotonic()
    done = python("-c", block + "runpy.run_path(sys.argv[0], run_name='__main__')", script, "-o",
                  str(tmp_path / "window.svg"))  # without --quick
    assert done.returncode == 2 and "needs the package matplotlib" in done.stderr
    for output, message in ((str(tmp_path / "none" / "window.svg"), "no such folder"), ("window.text", "cannot write text files")):
        done = python(script, "-o", output)
        assert done.returncode == 2 and message in done.stderr
    assert time.monotonic() - started < 20


def test_readme_snippet() -> None:
    """The README's Python code runs as it stands."""
    readme = Path(__file__).resolve().parents[2] / "README.md"
    text = readme.read_text() if readme.is_file() else ""
    snippets = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    if not snippets:
        pytest.skip("README.md has no Python code")
    for snippet in snippets:
        done = python("-c", snippet)
        assert done.returncode == 0, snippet + done.stderr
