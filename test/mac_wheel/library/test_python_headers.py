"""Our pyconfig.h answers what Python's headers ask."""

import re
from pathlib import Path

import pytest

from fork_tool.mac_library.headers import found_headers
from fork_tool.mac_library.symbols import python_names
from made_wheel import Made

# Asked, and rightly not there: other systems' and compilers', debugging builds', or answered by pymacconfig.h.
LEFT_OUT = frozenset(
    """
    ALT_SOABI DOUBLE_IS_ARM_MIXED_ENDIAN_IEEE754 DOUBLE_IS_BIG_ENDIAN_IEEE754 HAVE_ALIGNED_REQUIRED HAVE_GCC_ASM_FOR_X64
    HAVE_GCC_ASM_FOR_X87 HAVE_IEEEFP_H HAVE_LARGEFILE_SUPPORT HAVE_PTHREAD_STUBS HAVE_SYS_TERMIO_H HAVE_USABLE_WCHAR_T
    HAVE__GETPTY PYLONG_BITS_IN_DIGIT Py_DEBUG Py_ENABLE_SHARED Py_GIL_DISABLED Py_HASH_ALGORITHM Py_STATS Py_TRACE_REFS
    SETPGRP_HAVE_ARG SIGNED_RIGHT_SHIFT_ZERO_FILLS WITH_DTRACE WITH_MIMALLOC WORDS_BIGENDIAN _POSIX_C_SOURCE
    _POSIX_THREADS _XOPEN_SOURCE const mode_t pid_t signed size_t
    """.split()
)


@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_all_questions_are_answered(made: Made, python: str) -> None:
    bench = made.bench
    headers = found_headers(bench.places, bench.pin, python, bench.cache)
    known = set()
    for config in headers.parent.rglob(f"x86_64-linux-gnu/python{python}/pyconfig.h"):
        text = config.read_text()
        known = set(re.findall(r"^#\s*define (\w+)", text, re.M)) | set(re.findall(r"^/\* #undef (\w+)", text, re.M))
    if not known:
        pytest.skip("these headers are not Debian's: there is no list of questions")
    asked: dict[str, str] = {}
    for header in headers.rglob("*.h"):
        # Curses is not included here.
        if header.name in ("pyconfig.h", "py_curses.h") or "internal" in header.parts:
            continue
        for word in set(re.findall(r"\w+", header.read_text(errors="replace"))) & known:
            asked.setdefault(word, header.name)
    own = (bench.places.own / "include" / "python" / "pyconfig.h").read_text()
    answered = set(re.findall(r"^#define (\w+)", own, re.M))
    assert len(asked) > 30
    assert {word: header for word, header in asked.items() if word not in answered | LEFT_OUT} == {}


def test_names_of_the_api(tmp_path: Path) -> None:
    """As headers of 3.9 to 3.13 declare them: some two at once."""
    (tmp_path / "some.h").write_text(
        """
PyAPI_DATA(struct _longobject) _Py_FalseStruct, _Py_TrueStruct;
PyAPI_FUNC(PyObject *) PyList_New(Py_ssize_t size);
PyAPI_FUNC(void) _Py_NO_RETURN Py_FatalError(const char *message);
PyAPI_DATA(const char * const) PyStructSequence_UnnamedField;
static inline int not_exported(int one, int other);
"""
    )
    expected = {"PyList_New", "Py_FatalError", "PyStructSequence_UnnamedField", "_Py_FalseStruct", "_Py_TrueStruct"}
    assert set(python_names(tmp_path)) == {f"_{name}" for name in expected}
