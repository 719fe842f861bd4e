"""The tool's table of operators against the signatures of the Python package.

    signatures.py TOOL OPERATORS.py

Reads the source alone: neither the package nor the library is loaded. Compared: which operators there
are; every parameter's name, place and default; which tensors may be missing; which are written in place.
"""
from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any


def signature(function: ast.FunctionDef) -> list[dict[str, Any]]:
    arguments = function.args.args + function.args.kwonlyargs
    positional = [None] * (len(function.args.args) - len(function.args.defaults)) + function.args.defaults
    result = []
    for argument, default in zip(arguments, positional + function.args.kw_defaults):
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        one = {"name": argument.arg, "tensor": "Array" in annotation}
        if default is not None:
            one["default"] = ast.literal_eval(default)
        result.append(one)
    return result


def written(tree: ast.Module) -> dict[str, list[str]]:
    """The arrays each operator writes in place, by the calls of _operation."""
    result = {}
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "_operation"):
            continue
        writes = [k.value for k in call.keywords if k.arg == "writes"]
        result[ast.literal_eval(call.args[0])] = ast.literal_eval(writes[0]).split() if writes else []
    return result


def main(tool: str, source: str) -> int:
    with open(source, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    python = {f.name: signature(f) for f in tree.body
              if isinstance(f, ast.FunctionDef) and not f.name.startswith("_")}
    in_place = written(tree)
    info = json.loads(subprocess.run([tool, "info", "--json"], check=True, capture_output=True).stdout)
    table = {o["name"]: o["parameters"] for o in info["operators"]}
    bad = 0

    def same(what: str, ours: Any, theirs: Any) -> None:
        nonlocal bad
        if ours != theirs:
            bad += 1
            print(f"{what}:\n  the tool has {ours}\n  Python has   {theirs}")

    same("operators", sorted(table), sorted(python))
    for name in sorted(set(table) & set(python)):
        ours = [{"name": p["name"], "tensor": p["role"] != "scalar",
                 **({"default": p["default"]} if "default" in p else {})}
                for p in table[name] if p["role"] != "tool's own"]
        same(f"{name}: parameters", ours, python[name])
        same(f"{name}: written in place", [p["name"] for p in table[name] if p["role"] == "in place"],
             in_place.get(name))
    print(f"{len(table)} operators, {sum(map(len, table.values()))} parameters, {bad} differences")
    return 1 if bad or not table else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
