"""The check of the layers against planted faults: in a small tree, and in a copy of src itself.

usage: test_layers.py CHECKER SOURCE_DIR CC NM
"""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKER, SOURCE, CC, NM = sys.argv[1:5]

SMALL = {
    "layers.txt": "roots . ../public\noutside other/*.h\ntop\nleft right  # siblings\nbase\npub/*\n",
    "top.c": '#include "left.h"\n#include "right.h"\nint top(void) { return left() + right(); }\n',
    "left.h": "int left(void);\n",
    "left.c": '#include "left.h"\n#include "base.h"\nint left(void) { return base(); }\n',
    "right.h": "int right(void);\n",
    "right.c": '#include "right.h"\n#include "pub/p.h"\nint right(void) { return P; }\n',
    "base.h": "int base(void);\n",
    "base.c": '#include "base.h"\nint base(void) { return 1; }\n',
    "../public/pub/p.h": "enum { P = 1 };\n",
}


class Tree:
    def __init__(self, test, cleanup="addCleanup"):
        folder = tempfile.TemporaryDirectory()
        getattr(test, cleanup)(folder.cleanup)
        self.root = Path(folder.name) / "src"
        self.objects = Path(folder.name) / "objects"

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def append(self, name, text):
        self.write(name, (self.root / name).read_text() + text)

    def compile(self, name):
        out = self.objects / (name + ".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([CC, "-c", f"-I{self.root}", f"-I{self.root.parent}/public", f"-I{self.root.parent}/include",
                        self.root / name, "-o", out], check=True)

    def check(self, objects=True):
        extra = [f"--objects={self.objects}", f"--nm={NM}"] if objects else []
        run = subprocess.run([sys.executable, CHECKER, self.root / "layers.txt", *extra],
                             capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.clean = Tree(cls, "addClassCleanup")
        for name, text in SMALL.items():
            cls.clean.write(name, text)
        for name in SMALL:
            if name.endswith(".c"):
                cls.clean.compile(name)

    def setUp(self):
        self.tree = Tree(self)
        shutil.copytree(self.clean.root.parent, self.tree.root.parent, dirs_exist_ok=True)

    def finds(self, *lines, objects=True):
        code, text = self.tree.check(objects)
        self.assertEqual((code, sorted(text.splitlines())), (1, sorted(lines)), text)

    def test_clean(self):
        code, text = self.tree.check()
        self.assertEqual((code, text), (0, "8 files in 4 layers: 7 includes and 3 calls go down\n"))

    def test_prefix(self):
        self.tree.append("layers.txt", "prefix src/\n")
        self.tree.append("base.h", '#include "src/left.h"\n')
        self.finds("base.h: includes left.h, of a higher layer", objects=False)

    def test_include_upwards(self):
        self.tree.append("base.h", '#  include "left.h"\n')
        self.finds("base.h: includes left.h, of a higher layer", objects=False)

    def test_include_sideways(self):
        self.tree.append("left.c", '#include "right.h"\n')
        self.finds("left.c: includes right.h, of the same layer", objects=False)

    def test_call_upwards(self):
        self.tree.write("base.c", "int top(void);\nint base(void) { return top(); }\n")
        self.tree.compile("base.c")
        self.finds("base.c: calls top() in top.c, of a higher layer")

    def test_call_sideways(self):
        self.tree.write("left.c", "int right(void);\nint left(void) { return right(); }\n")
        self.tree.compile("left.c")
        self.finds("left.c: calls right() in right.c, of the same layer")

    def test_address_is_a_call(self):
        self.tree.append("base.c", "int top(void);\nint (*hook)(void) = top;\n")
        self.tree.compile("base.c")
        self.finds("base.c: calls top() in top.c, of a higher layer")

    def test_file_without_layer(self):
        self.tree.write("new/lost.c", "")
        self.finds("new/lost.c: in no layer")

    def test_file_in_two_units(self):
        self.tree.write("layers.txt", SMALL["layers.txt"] + "base.h\n")
        self.finds("base.h: in two units, base.h and base", objects=False)

    def test_unit_without_file(self):
        self.tree.write("layers.txt", SMALL["layers.txt"] + "gone\n")
        self.finds("gone: no such file")

    def test_include_from_nowhere(self):
        self.tree.append("left.c", '#include "other/fine.h"\n#include "elsewhere.h"\n')
        self.finds('left.c: includes "elsewhere.h", which is in no layer')

    def test_no_objects(self):
        shutil.rmtree(self.tree.objects)
        self.finds("the objects hold no call between files")

    def test_stale_object(self):
        self.tree.write("gone.c", "int top(void);\nint gone(void) { return top(); }\n")
        self.tree.compile("gone.c")
        (self.tree.root / "gone.c").unlink()
        self.assertEqual(self.tree.check()[0], 0)


class Library(unittest.TestCase):
    """The real order, with one fault planted in a copy of src."""

    def setUp(self):
        self.tree = Tree(self)
        shutil.copytree(Path(SOURCE) / "src", self.tree.root)
        shutil.copytree(Path(SOURCE) / "include", self.tree.root.parent / "include")

    def test_include_upwards(self):
        self.assertEqual(self.tree.check(objects=False)[0], 0)
        self.tree.append("core/states.h", '#include "core/run.h"\n')
        code, text = self.tree.check(objects=False)
        self.assertEqual((code, text), (1, "core/states.h: includes core/run.h, of a higher layer\n"))

    def test_call_upwards(self):
        names = ("core/states.c", "core/replay.c", "core/dispatch.c")
        for name in names:
            self.tree.compile(name)
        self.assertEqual(self.tree.check()[0], 0)
        self.tree.append("core/states.c", "void rdi_group_run(const void *);\n"
                                          "void planted(void);\nvoid planted(void) { rdi_group_run(0); }\n")
        self.tree.compile("core/states.c")
        code, text = self.tree.check()
        self.assertEqual(
            (code, text), (1, "core/states.c: calls rdi_group_run() in core/dispatch.c, of a higher layer\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
