r"""The cache of compiled MPSGraphs, which captures and, on request, all operators run."""
from typing import Dict

import torch


__all__ = [
    "executable_cache_clear",
    "executable_cache_stats",
    "is_executable_cache_enabled",
    "set_executable_cache_enabled",
    "set_executable_cache_limit",
]


def executable_cache_stats() -> Dict[str, int]:
    r"""Return the counts of the executable cache.

    An executable is an MPSGraph compiled for the shapes and dtypes that it is fed. Captured graphs
    share them, and so do operators outside of captures after :func:`set_executable_cache_enabled`.

    Returns:
        A dict of ``hits``, ``misses`` (each of them a compilation), ``evictions``, ``entries``
        and ``limit`` (the most entries that are kept).

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> torch.mps.executable_cache_clear()
        >>> x = torch.ones(4, device="mps")
        >>> for _ in range(3):
        ...     with torch.mps.graph_capture():
        ...         y = x.exp()
        >>> stats = torch.mps.executable_cache_stats()
        >>> stats["misses"], stats["hits"]
        (1, 2)
    """
    return torch._C._mps_executable_cache_stats()


def executable_cache_clear() -> None:
    r"""Forget all executables, and set the counts to zero.

    Executables that a captured graph or the GPU still needs live until that is over.
    """
    torch._C._mps_executable_cache_clear()


def set_executable_cache_limit(n: int) -> None:
    r"""Set how many executables are kept. Beyond that, the one that was not used for longest goes.

    Arguments:
        n (int): The most entries, 1024 at start; with 0 nothing is kept.

    Raises:
        ValueError: if ``n`` is negative.
    """
    if n < 0:
        raise ValueError(
            f"the limit of the executable cache must be 0 or more, but is {n}"
        )
    torch._C._mps_set_executable_cache_limit(n)


def set_executable_cache_enabled(enabled: bool) -> None:
    r"""Let operators outside of captures run cached executables in place of MPSGraphs, or not.

    Off at start, unless the environment variable ``PYTORCH_MPS_EXECUTABLE_CACHE`` is ``1``.

    Arguments:
        enabled (bool): Whether they do.
    """
    torch._C._mps_set_executable_cache_enabled(enabled)


def is_executable_cache_enabled() -> bool:
    r"""Return whether operators outside of captures run cached executables."""
    return torch._C._mps_is_executable_cache_enabled()
