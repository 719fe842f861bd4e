#!/usr/bin/env python3
"""Derives the constants of the canonical arithmetic again and checks every place that states them.

usage: check_constants.py [--points N] [SOURCE_DIR]

1. Bits: log2(e), ln 2 in two parts, the atanh series and the usual eps, rounded from 60 digits.
2. The exp polynomial: its error, in 60 digits, is below 2^-28, a sixteenth of what one f32 rounding
   costs. A Remez exchange gives the best error any polynomial of this form can have, for comparison.
3. The three functions, emulated with exact rational numbers rounded to f32 after each operation, at
   N points each: the largest error in units of the last place against 60-digit values.
4. The files that repeat the bit patterns agree.
Needs nothing but Python. Exit status 0 when everything holds, 1 when not, 2 for bad usage.
"""
import math
import random
import re
import struct
import sys
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

getcontext().prec = 60
FILES = {  # where the patterns must appear, and how they are written there
    "src/kernels/c1.h": r"#define RDI_C1_(\w+)\s+0x([0-9A-Fa-f]{8})u",
    "src/ref/c1.c": None,
    "docs/NUMERICS.md": None,
}
NAMES = "LOG2E LN2HI LN2LO E0 E1 E2 E3 E4 E5 L6 L5 L4 L3 L2 L1 EPS".split()
failures = 0


def check(ok, text):
    global failures
    failures += not ok
    print(("ok      " if ok else "FAILED  ") + text)


def f32(bits):
    return Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])


def round_f32(x):
    """A rational number to the nearest f32, ties to even, subnormals kept (no overflow here)."""
    if x == 0:
        return Fraction(0)
    a = abs(x)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    if Fraction(2) ** e > a:
        e -= 1
    unit = Fraction(2) ** (max(e, -126) - 23)
    return Fraction(round(a / unit)) * unit * (1 if x > 0 else -1)  # round() ties to even


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", float(round_f32(x))))[0]


def dec(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


def frac(x):
    return Fraction(x)


# ---- 1. derivation ------------------------------------------------------------------------------

LN2 = Decimal(2).ln()


def derived():
    table = {"LOG2E": bits_of(frac(1 / LN2)), "EPS": bits_of(Fraction(1, 10**6))}
    table["LN2HI"] = bits_of(Fraction(int(frac(LN2) * 2**15), 2**15))  # cut after 15 bits
    for i in range(1, 7):
        table[f"L{i}"] = bits_of(Fraction(1, 2 * i + 1))
    return table


def check_bits(table):
    for name, bits in sorted(derived().items()):
        check(table[name] == bits, f"{name} {table[name]:08X} is derived again ({bits:08X})")
    hi, lo = f32(table["LN2HI"]), f32(table["LN2LO"])
    significant = (hi.numerator).bit_length()
    check(significant + 8 <= 24, f"LN2HI has {significant} bits: n * LN2HI is exact for |n| < 256")
    check(table["LN2LO"] == bits_of(frac(LN2) - hi), "LN2LO is the nearest f32 to ln 2 - LN2HI")
    left = abs(dec(hi + lo) - LN2) * 151
    check(left < Decimal(2) ** -35, f"what both miss, times the largest n, is {left:.2e} < 2^-35")


# ---- 2. the polynomial of exp: 1 + r + r^2 (E5 + E4 r + ... + E0 r^5) on |r| <= ln2/2 -------------

BOUND = LN2 / 2


def relative_error(coefficients, r):
    p = Decimal(0)
    for c in coefficients:
        p = p * r + c
    return (1 + r + r * r * p) / r.exp() - 1


def solve(rows):
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def grid(n):
    return [BOUND * (Decimal(2 * i) / n - 1) for i in range(n + 1)]


def extrema(coefficients, count):
    """Points of alternating extreme error, one per run of equal sign."""
    best = []
    for r in grid(800):
        e = relative_error(coefficients, r)
        if best and (e > 0) == (best[-1][1] > 0):
            if abs(e) > abs(best[-1][1]):
                best[-1] = (r, e)
        else:
            best.append((r, e))
    while len(best) > count:  # keep the larger end
        best.pop(0 if abs(best[0][1]) < abs(best[-1][1]) else -1)
    return [r for r, _ in best]


def remez():
    points = [-BOUND * Decimal(math.cos(math.pi * i / 6)) for i in range(7)]
    coefficients = []
    for _ in range(8):
        # 1 + r + r^2 p(r) = e^r (1 + (-1)^i h): six coefficients and the levelled error h
        rows = [[r ** (7 - k) for k in range(6)] + [-r.exp() * (-1) ** i, r.exp() - 1 - r]
                for i, r in enumerate(points)]
        *coefficients, level = solve(rows)
        found = extrema(coefficients, 7)
        if len(found) < 7:
            break
        points = found
    return max(abs(relative_error(coefficients, r)) for r in grid(800))


def check_polynomial(table):
    optimum = remez()
    ours = [dec(f32(table[f"E{i}"])) for i in range(6)]
    error = max(abs(relative_error(ours, r)) for r in grid(800))
    check(optimum < error < Decimal(2) ** -28,
          f"exp polynomial: error {error:.3e} < 2^-28, best possible {optimum:.3e}")
    w = Decimal(1) / 9  # the largest w: z = 1
    rest = sum(w**i / (2 * i + 1) for i in range(7, 60))
    check(rest < Decimal(2) ** -25, f"atanh series: the terms left out are {rest:.2e} < 2^-25")


# ---- 3. the functions ----------------------------------------------------------------------------

def exp_c(x, t):
    x = min(max(x, Fraction(-105)), Fraction(89))
    n = round(round_f32(x * t["LOG2E"]))
    r = round_f32(x - n * t["LN2HI"])
    r = round_f32(r - n * t["LN2LO"])
    p = t["E0"]
    for i in range(1, 6):
        p = round_f32(p * r + t[f"E{i}"])
    p = round_f32(p * round_f32(r * r) + round_f32(r + 1))
    return round_f32(p * Fraction(2) ** n)


def sig(x, t):
    return round_f32(1 / round_f32(1 + exp_c(-x, t)))


def softplus(x, t):
    z = exp_c(-abs(x), t)
    s = round_f32(z / round_f32(2 + z))
    w = round_f32(s * s)
    p = t["L6"]
    for i in range(5, 0, -1):
        p = round_f32(p * w + t[f"L{i}"])
    p = round_f32(p * w + 1)
    return round_f32(2 * s * p + max(x, Fraction(0)))


def log1p(z):
    return (1 + z).ln() if z > Decimal("1e-30") else z - z * z / 2


FUNCTIONS = [  # range, bound in ulp: those of test/kernels/accuracy.c
    ("exp_c", exp_c, lambda x: x.exp(), -100, 88, 1.3),
    ("sig", sig, lambda x: 1 / (1 + (-x).exp()), -87, 87, 3.2),
    ("softplus", softplus, lambda x: max(x, Decimal(0)) + log1p((-abs(x)).exp()), -100, 100, 4.0),
]


def check_functions(table, points):
    t = {name: f32(bits) for name, bits in table.items()}
    generator = random.Random(1)
    for name, function, truth, low, high, bound in FUNCTIONS:
        worst = Decimal(0)
        for i in range(points):
            u = generator.uniform(low, high) if i % 2 else generator.uniform(-4, 4)
            x = round_f32(Fraction(u))
            y = truth(dec(x))
            e = max(int(y.log10() / Decimal(2).log10() // 1), -126)
            worst = max(worst, abs(dec(function(x, t)) - y) / Decimal(2) ** (e - 23))
        check(worst <= Decimal(str(bound)), f"{name}: {worst:.3f} ulp at {points} points, bound {bound}")


# ---- 4. the files --------------------------------------------------------------------------------

def read_table(root):
    path = root / "src/kernels/c1.h"
    table = {m[1]: int(m[2], 16) for m in re.finditer(FILES["src/kernels/c1.h"], path.read_text())}
    check(sorted(table) == sorted(NAMES), f"{path.name} defines the {len(NAMES)} constants")
    return table


def check_files(root, table):
    for name, pattern in FILES.items():
        path = root / name
        if pattern is not None or not path.exists():
            continue
        words = set(re.findall(r"\b(?:0x)?([0-9A-Fa-f]{8})\b", path.read_text()))
        words = {int(w, 16) for w in words}
        missing = [n for n in NAMES if table[n] not in words and not (n == "EPS" and name.endswith(".c"))]
        check(not missing, f"{name} states the same patterns" + (f", but not {missing}" if missing else ""))


def main(arguments):
    points = 1500
    if arguments[:1] == ["--points"]:
        if len(arguments) < 2 or not arguments[1].isdigit():
            print(__doc__, file=sys.stderr)
            return 2
        points, arguments = int(arguments[1]), arguments[2:]
    if len(arguments) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    table = read_table(root)
    if failures == 0:
        check_bits(table)
        check_polynomial(table)
        check_functions(table, points)
        check_files(root, table)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
