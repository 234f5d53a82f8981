# Python 3.9 runs this file.
# ruff: noqa: UP045
"""Puts the patched MPS backend of this wheel in place of the official one while torch is being imported.

``torch/__init__.py`` calls :func:`take_over` before it imports ``torch._C``, and :func:`bind` after. Either all of the
patched backend is in charge of the device or, with a warning that says why, none of it. ``TORCH_MPS_GRAPH_DISABLE=1``
leaves the official backend alone.
"""

import ctypes
import os
import sys
import warnings
from typing import Optional

# The steps of torch_mps_graph_load().
_TAKE_OVER, _BIND, _CHECK, _STAND_BY = 0, 1, 2, 3

# Loaded; and in charge.
_loaded: Optional[ctypes.PyDLL] = None
_library: Optional[ctypes.PyDLL] = None
_reason = "torch did not ask for it"


def _path() -> str:
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libtorch_mps_graph." + suffix)


def _run(library: ctypes.PyDLL, step: int) -> Optional[str]:
    answer: Optional[bytes] = library.torch_mps_graph_load(step)
    return None if answer is None else answer.decode(errors="replace")


def _say(message: str) -> None:
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        # Warnings are errors here, but torch works.
        print(message, file=sys.stderr)


def _refuse(reason: str) -> None:
    global _reason
    _reason = reason
    _say(
        "torch.mps: graph capture is not available, and the official MPS backend is in charge, since "
        f"{reason}. TORCH_MPS_GRAPH_DISABLE=1 silences this."
    )


def in_charge() -> bool:
    """Say whether the patched backend has the MPS device."""
    return _library is not None


def reason() -> str:
    """Return why the patched backend does not have the device, or an empty string."""
    return _reason


def trouble() -> Optional[str]:
    """Return what is wrong with the device's work in this process, in a sentence, or None.

    An extension that was built with another torch may call functions of the backend that is not in charge. Its work is
    not ordered with the rest. A warning says so when it is loaded, and a capture refuses to begin.
    """
    return None if _loaded is None else _run(_loaded, _CHECK)


def _load() -> ctypes.PyDLL:
    global _loaded
    library = ctypes.PyDLL(_path())
    library.torch_mps_graph_load.restype = ctypes.c_char_p
    library.torch_mps_graph_load.argtypes = [ctypes.c_int]
    _loaded = library
    return library


def _stand_by() -> None:
    """Load the library for extensions that were linked with it; it takes nothing over."""
    try:
        _run(_load(), _STAND_BY)
    except (OSError, AttributeError):
        pass  # It is turned off, perhaps since it can't be loaded.


def take_over() -> None:
    """Load the library, which takes the device over or changes nothing."""
    global _library, _reason
    if os.environ.get("TORCH_MPS_GRAPH_DISABLE", "0") not in ("", "0"):
        _reason = "TORCH_MPS_GRAPH_DISABLE is set"
        _stand_by()
        return
    if "torch._C" in sys.modules:
        _refuse("torch._C was imported before torch")
        return
    try:
        library = _load()
        refusal = _run(library, _TAKE_OVER)
    except (OSError, AttributeError) as error:
        refusal = f"its library cannot be loaded ({error})"
    if refusal is not None:
        _refuse(refusal)
        return
    _library, _reason = library, ""


def bind() -> None:
    """Give ``torch._C`` the functions and classes of the patched backend, if it is in charge.

    Raises:
        ImportError: they could not be made. By then neither backend is whole in this process.
    """
    if _library is None:
        return
    failure = _run(_library, _BIND)
    if failure is not None:
        raise ImportError(
            f"The Python functions of the patched MPS backend could not be made ({failure}). Set "
            "TORCH_MPS_GRAPH_DISABLE=1 to use the official backend, and report this."
        )
