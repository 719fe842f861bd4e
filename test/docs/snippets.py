"""Runs what README.md and docs/*.md show.

usage: snippets.py SOURCE_DIR REDELTA SCRATCH

    ```python   runs as a program; where a print(...) line ends in "# text", that is what it prints
    ```sh       lines that begin with "redelta" run in one scratch folder, in order; a line that ends in
                "# exit status N" must give N, any other one 0; "redelta bench" is only parsed (--help)

Programs in C are the business of test/install/examples.sh. Exit status 0 when everything holds.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)
PRINTS = re.compile(r"^ *print\(.*\) +# (.*)$", re.M)


def run_python(code, scratch):
    done = subprocess.run([sys.executable, "-c", code], cwd=scratch, capture_output=True, text=True)
    if done.returncode:
        return f"fails:\n{done.stderr}"
    want = [line.strip() for line in PRINTS.findall(code)]
    got = [line.strip() for line in done.stdout.splitlines()]
    if not want:
        return "prints nothing that it promises"
    return "" if got == want else f"prints {got}, promises {want}"


def run_shell(code, tool, scratch):
    for line in code.splitlines():
        command, _, comment = line.partition("#")
        words = command.split()
        if not words or words[0] != "redelta":
            continue
        status = re.search(r"exit status (\d)", comment)
        words = [*words[:2], "--help"] if words[1] == "bench" else words
        done = subprocess.run([tool, *words[1:]], cwd=scratch, capture_output=True, text=True)
        if "was built without" in done.stderr:
            print(f"'{command.strip()}': not run, this tool was built without it")
        elif done.returncode != int(status[1] if status else 0):
            return f"'{command.strip()}' gives {done.returncode}: {done.stderr}"
    return ""


def main():
    source, tool, scratch = Path(sys.argv[1]), os.path.abspath(sys.argv[2]), Path(sys.argv[3])
    failed = passed = 0
    for page in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for kind, code in BLOCK.findall(page.read_text()):
            problem = run_python(code, scratch) if kind == "python" else run_shell(code, tool, scratch)
            if problem:
                print(f"{page.name}, {kind}: {problem}\n{code}")
            failed, passed = failed + bool(problem), passed + (not problem)
    if passed + failed < 2:
        print("the documents show nothing to run")
        failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
