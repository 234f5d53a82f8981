"""Seeing operators fall back: by the backend's own warning, not by a list of what it has kernels for."""

import re
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_T = TypeVar("_T")
_LONGEST = 200
_WARNING = re.compile(r"operator '([\w:.]+)' is not currently supported on the MPS backend")
_ERROR = re.compile(r"operator '([\w:.]+)' is not currently implemented for the MPS device")


class _Boundary(torch.autograd.Function):
    """Calls a function so that the warnings of C++ code come out here.

    A binding of torch hands them to Python when it returns to it. `torch.ops.aten.…` is none: called from there, a
    warning goes to the standard error, and inside of another binding to where that one ends.
    """

    @staticmethod
    def forward(_context: Any, call: Callable[[], None]) -> None:
        call()


def with_fallbacks(call: Callable[[], _T]) -> tuple[_T, list[str]]:
    """The call's result and the operators that ran on the CPU in it, one entry for each time."""
    result: list[_T] = []
    before = torch.is_warn_always_enabled()
    # The backend warns once in a process otherwise.
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _Boundary.apply(lambda: result.append(call()))  # type: ignore[no-untyped-call]
    finally:
        torch.set_warn_always(before)
    seen = []
    for warning in caught:
        match = _WARNING.search(str(warning.message))
        if match:
            seen.append(match[1])
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return result[0], seen


def missing_operator(problem: BaseException) -> str | None:
    """The operator that the error says has no kernel, where falling back is not allowed."""
    match = _ERROR.search(str(problem)) if isinstance(problem, NotImplementedError) else None
    return match[1] if match else None


def first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    line = lines[0].strip() if lines else type(problem).__name__
    return line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(" ", 1)[0] + " …"
