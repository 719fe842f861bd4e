#!/usr/bin/env python3
"""Checks what the .md files of the tree point at.

usage: check_docs.py [SOURCE_DIR [links]]      folders called broken or build* are not looked at

    links    every relative link has its file, and its #anchor is a heading there
    reached  README.md is there, and every page of docs/ is behind a link of some other page
    paths    every `path/to/file` in backticks exists, if its first folder is one of the tree's; *, ** and
             {a,b} are patterns that must match something; build/ holds products and is not looked at

    operators  every operator of operators.h has its section in docs/OPERATORS.md, and every file outside
             tests that names one stands in a row of docs/ADDING-AN-OPERATOR.md

"links" as a second argument checks links only (an installed copy has no sources). Exit status 0 when
everything holds, 1 when not.
"""
import re
import sys
from pathlib import Path

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([A-Za-z0-9_.][A-Za-z0-9_.*{},/-]*/[A-Za-z0-9_.*{},/-]*)`")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
HEADING = re.compile(r"^#+ +(.*)$", re.M)


def anchors(text):
    """The names that renderers give to headings: lower case, punctuation gone, blanks as hyphens."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in HEADING.findall(FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in plain}


def expand(pattern):
    """a{b,c}d -> abd, acd"""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [p for part in found[1].split(",")
            for p in expand(pattern[:found.start()] + part + pattern[found.end():])]


def documents(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part.startswith((".", "build")) or part == "broken" for part in parts):
            yield path


def dead_links(path, text):
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        if not file.exists():
            yield f"no file behind the link {target}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"no heading behind the link {target}"


def unreached(root, texts):
    """Pages of docs/ that no other page links to."""
    linked = {(path.parent / target.partition("#")[0]).resolve() for path, text in texts.items()
              for target in LINK.findall(FENCE.sub("", text)) if (path.parent / target).resolve() != path}
    return [path for path in texts if path.parent == root / "docs" and path not in linked]


def dead_paths(root, text):
    for quoted in QUOTED.findall(FENCE.sub("", text)):
        if not (root / quoted.split("/")[0]).is_dir() or quoted.startswith("build/"):
            continue
        for pattern in expand(quoted):
            if not any(root.glob(pattern.rstrip("/"))):
                yield f"no file {pattern}"


def operators(root):
    """The functions that take a parameter struct of their own name, from the public header."""
    text = (root / "include/redelta/operators.h").read_text()
    return sorted(set(re.findall(r"rd_(\w+)\(\s*rd_context \*ctx,\s*const rd_\1_params", text)))


def unlisted(root):
    """What docs/OPERATORS.md and docs/ADDING-AN-OPERATOR.md do not know."""
    names = operators(root)
    if len(names) < 6:
        yield "operators.h was not understood"
    sections = " ".join(re.findall(r"^## (.*)$", (root / "docs/OPERATORS.md").read_text(), re.M)).split()
    yield from (f"no section on {name}" for name in names if name not in sections)
    listed = {path for pattern in QUOTED.findall((root / "docs/ADDING-AN-OPERATOR.md").read_text())
              for path in root.glob(pattern)} | {root / "README.md", root / "CHANGELOG.md"}
    own = re.compile(r"(?<![A-Za-z0-9])(?:rd_|rdr_)?(?:" + "|".join(names) + r")(?![a-z0-9])")
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if parts[0] in ("test", "fuzz", "bench", "examples") or "tests" in parts or path in listed:
            continue
        if any(part.startswith((".", "build", "__")) for part in parts) or not path.is_file():
            continue
        if any(parent in listed for parent in path.parents):
            continue
        if path.suffix in (".c", ".h", ".py", ".txt", ".md", ".sh", "") and own.search(path.read_text(errors="ignore")):
            yield f"{path.relative_to(root)} names an operator: docs/ADDING-AN-OPERATOR.md has no row for it"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    texts = {path: path.read_text() for path in documents(root)}
    found = [(path, "no page links to it") for path in unreached(root, texts)]
    for path, text in texts.items():
        found += [(path, p) for p in dead_links(path, text)]
        if sys.argv[2:] != ["links"]:
            found += [(path, p) for p in dead_paths(root, text)]
    if (root / "docs/ADDING-AN-OPERATOR.md").exists() and sys.argv[2:] != ["links"]:
        found += [(root / "docs/OPERATORS.md", p) for p in unlisted(root)]
    for path, problem in found:
        print(f"{path.relative_to(root)}: {problem}")
    if not texts:
        print(f"no documents below {root}")
    print(f"{len(texts)} documents, {len(found)} faults")
    return 1 if found or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
