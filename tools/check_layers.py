#!/usr/bin/env python3
"""Checks that a part of the tree goes one way: includes and calls lead only to lower layers.

usage: check_layers.py LAYERS [--objects DIR]... [--nm NM]

LAYERS is a text file, highest layer first:
    roots DIR...        where quoted includes are looked for, relative to LAYERS; files beneath the first
                        one that the lines do not name are an error
    prefix TEXT         what includes put before a name (npu/ where the root is npu)
    outside PATTERN...  includes that are no part of this order
    UNIT UNIT...        one layer. A unit is a file, X for the files X.*, or a pattern (* stays within a
                        folder, ** does not)
    # text              a comment
Files of one unit may know each other; units of one layer may not. With --objects (a folder of objects
named after their sources, as CMake makes them), an undefined symbol that another object defines is a
call. Exit status 0 when everything holds, 1 when not.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
SOURCES = {".c", ".h", ".def"}


def matcher(word):
    parts = {"**": ".*", "*": "[^/]*"}
    text = "".join(parts.get(p, re.escape(p)) for p in re.split(r"(\*\*|\*)", word))
    return re.compile(text if "*" in word or "." in Path(word).name else text + r"\.\w+").fullmatch


class Order:
    """Names are paths relative to the root that has the file."""

    def __init__(self, path):
        self.place, self.problems, self.outside, layers, roots = {}, [], [], [], ["."]
        self.prefix = ""
        for line in path.read_text().splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["roots"]:
                roots = words[1:]
            elif words[:1] == ["prefix"]:
                self.prefix = words[1]
            elif words[:1] == ["outside"]:
                self.outside += map(matcher, words[1:])
            elif words:
                layers.append(words)
        self.roots = [path.parent / r for r in roots]
        self.files = {}
        for root in self.roots:
            for file in sorted(root.rglob("*")):
                if file.suffix in SOURCES:
                    self.files.setdefault(file.relative_to(root).as_posix(), file)
        self.layers = len(layers)
        for height, words in enumerate(reversed(layers)):
            for word in words:
                self.take(word, height)
        for name, file in self.files.items():
            if name not in self.place and file.is_relative_to(self.roots[0]):
                self.problems.append(f"{name}: in no layer")

    def take(self, word, height):
        named = [n for n in self.files if matcher(word)(n)]
        if not named:
            self.problems.append(f"{word}: no such file")
        for name in named:
            if name in self.place:
                self.problems.append(f"{name}: in two units, {self.place[name][1]} and {word}")
            self.place[name] = (height, word)

    def use(self, user, used, how):
        """One file needs another; True when both have their place."""
        if user not in self.place or used not in self.place:
            return False
        (above, mine), (below, theirs) = self.place[user], self.place[used]
        if mine != theirs and below >= above:
            where = "of the same layer" if below == above else "of a higher layer"
            self.problems.append(f"{user}: {how} {used}, {where}")
        return True

    def includes(self):
        count = 0
        for name in self.place:
            for target in INCLUDE.findall(self.files[name].read_text()):
                target = target.removeprefix(self.prefix)
                beside = (Path(name).parent / target).as_posix()
                used = target if target in self.place else beside
                if self.use(name, used, "includes"):
                    count += 1
                elif not any(m(target) for m in self.outside):
                    self.problems.append(f'{name}: includes "{target}", which is in no layer')
        return count

    def calls(self, folders, nm):
        needs, home = {}, {}
        for folder in folders:
            for file in sorted(folder.rglob("*.o")):
                name = file.relative_to(folder).as_posix()[:-len(".o")]
                if name not in self.place:
                    continue  # what an earlier build left behind
                text = subprocess.run([nm, "-gP", file], check=True, capture_output=True, text=True).stdout
                for symbol, kind in (line.split()[:2] for line in text.splitlines()):
                    if kind in "UwV":
                        needs.setdefault(name, []).append(symbol)
                    else:
                        home[symbol] = name
        return sum(self.use(name, home[symbol], f"calls {symbol}() in")
                   for name, symbols in needs.items() for symbol in symbols if symbol in home)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("layers", type=Path)
    parser.add_argument("--objects", type=Path, action="append", default=[])
    parser.add_argument("--nm", default="nm")
    arguments = parser.parse_args()
    order = Order(arguments.layers)
    includes = order.includes()
    calls = order.calls(arguments.objects, arguments.nm)
    if arguments.objects and not calls:
        order.problems.append("the objects hold no call between files")
    print("\n".join(order.problems) or
          f"{len(order.place)} files in {order.layers} layers: {includes} includes and {calls} calls go down")
    return 1 if order.problems else 0


if __name__ == "__main__":
    sys.exit(main())
