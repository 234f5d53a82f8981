"""Names of C++ as people write them, by the runtime that every C++ program on this machine is linked with."""

from __future__ import annotations

import ctypes
from functools import cache

_RUNTIMES = ("libstdc++.so.6", "libc++abi.dylib", "/usr/lib/libc++abi.dylib")


@cache
def _runtime() -> ctypes.CDLL | None:
    for name in _RUNTIMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        library.free.argtypes = [ctypes.c_void_p]
        return library
    return None


def demangle(name: str) -> str:
    """The name in C++ of a symbol of a Mac's; itself if it is no name of C++."""
    runtime = _runtime()
    # On a Mac each symbol has an underscore in front.
    if runtime is None or not name.startswith("__Z"):
        return name
    text = runtime.__cxa_demangle(name[1:].encode(), None, None, None)
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode()
    finally:
        runtime.free(text)
