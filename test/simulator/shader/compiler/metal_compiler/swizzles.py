"""Writes the swizzle members of vectors: every choice of two to four components."""

from __future__ import annotations

import itertools
import sys


def members(size: int) -> str:
    """The members of a vector of ``size`` components, as one line of C++."""
    parts: list[str] = []
    for length in (2, 3, 4):
        for places in itertools.product(range(size), repeat=length):
            getter = "__get_" + "".join("xyzw"[place] for place in places)
            putter = getter.replace("get", "put")
            values = ", ".join(f"__data[{place}]" for place in places)
            parts.append(f"constexpr vec<T, {length}> {getter}() const {{ return {{{values}}}; }}")
            access = f"get = {getter}"
            if len(set(places)) == length:
                assignments = " ".join(f"__data[{place}] = value[{i}];" for i, place in enumerate(places))
                parts.append(f"constexpr void {putter}(vec<T, {length}> value) {{ {assignments} }}")
                access += f", put = {putter}"
            parts.append(f"__declspec(property({access})) vec<T, {length}> {getter[6:]};")
    return " ".join(parts)


def text() -> str:
    """The generated header."""
    return "".join(f"#define MPS_SIMULATOR_SWIZZLES_{size} {members(size)}\n" for size in (2, 3, 4))


if __name__ == "__main__":
    sys.stdout.write(text())
