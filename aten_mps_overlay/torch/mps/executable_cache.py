r"""The cache of compiled MPSGraphs for captures and, on request, for all operators."""

from typing import Any, Collection, Dict, List

import torch


__all__ = [
    "executable_cache_clear",
    "executable_cache_entries",
    "executable_cache_stats",
    "executable_cache_stats_by_operation",
    "is_executable_cache_enabled",
    "set_executable_cache_enabled",
    "set_executable_cache_limit",
]


def executable_cache_stats() -> Dict[str, int]:
    r"""Return the counts of the executable cache.

    An executable is an MPSGraph compiled for the shapes and dtypes of its inputs. Captured graphs
    share executables. After :func:`set_executable_cache_enabled`, operators outside of captures do too.

    Returns:
        A dict of ``hits``, ``misses`` (compilations), ``evictions``, ``entries`` and ``limit`` (the
        largest number of entries).

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
    cache = torch._C._mps_executable_cache()
    return {**_sum(cache["counts"].values()), "limit": cache["limit"]}


def executable_cache_stats_by_operation(
    parameters: bool = False,
) -> Dict[str, Dict[str, int]]:
    r"""Return the counts of the executable cache for each operation.

    They add up to the counts of :func:`executable_cache_stats`. An operation that misses repeatedly has
    other shapes or parameters each time. If an operation has evictions, raise the limit with
    :func:`set_executable_cache_limit`.

    Arguments:
        parameters (bool): Whether to count calls with other parameters separately.

    Returns:
        A dict from the operation to a dict of ``hits``, ``misses``, ``evictions`` and ``entries``. The
        name of an operation is the backend's name of its graph (``"mm_out_mps_impl"``). With
        ``parameters``, the parameters of the graph follow the name
        (``"mm_out_mps_impl:f32[2,3]:f32[3,4]"``). Graphs that the backend did not make, such as
        those of an extension, are counted under ``""``.

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> torch.mps.executable_cache_clear()
        >>> x = torch.ones(4, 4, device="mps")
        >>> for _ in range(3):
        ...     with torch.mps.graph_capture():
        ...         y = (x @ x).softmax(-1)
        >>> for operation, counts in torch.mps.executable_cache_stats_by_operation().items():
        ...     print(operation, counts["misses"], counts["hits"])
        mm_out_mps_impl 1 2
        softmax_mps_out 1 2
    """
    by_key: Dict[str, Dict[str, int]] = torch._C._mps_executable_cache()["counts"]
    if parameters:
        return by_key
    by_operation: Dict[str, List[Dict[str, int]]] = {}
    for key, counts in by_key.items():
        by_operation.setdefault(_operation(key), []).append(counts)
    return {operation: _sum(counts) for operation, counts in by_operation.items()}


def _sum(counts: Collection[Dict[str, int]]) -> Dict[str, int]:
    names = ("hits", "misses", "evictions", "entries")
    return {name: sum(each[name] for each in counts) for name in names}


def executable_cache_entries() -> List[Dict[str, Any]]:
    r"""Return the entries of the executable cache, the last used first.

    Returns:
        A list with a dict for each executable:

        * ``operation``: the name, as in :func:`executable_cache_stats_by_operation`
        * ``key``: the name and the parameters
        * ``inputs``: a list of the (shape, dtype) of its inputs. They may differ from the operation's
          arguments, because the backend may pass a bool as an int8. The dtype is None if no tensor can have it
        * ``hits``: the number of later uses

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> torch.mps.executable_cache_clear()
        >>> x = torch.ones(2, 3, device="mps")
        >>> with torch.mps.graph_capture():
        ...     y = x @ x.T
        >>> entry = torch.mps.executable_cache_entries()[0]
        >>> entry["operation"], entry["inputs"], entry["hits"]
        ('mm_out_mps_impl', [((2, 3), torch.float32), ((3, 2), torch.float32)], 0)
    """
    return [
        {
            "operation": _operation(entry["key"]),
            **entry,
            "inputs": [
                (tuple(shape), getattr(torch, dtype, None))
                for shape, dtype in entry["inputs"]
            ],
        }
        for entry in torch._C._mps_executable_cache()["entries"]
    ]


def _operation(key: str) -> str:
    # an operation begins the key of its graphs with its name
    return key.partition(":")[0]


def executable_cache_clear() -> None:
    r"""Forget all executables, and set the counts to zero.

    An executable that a captured graph or the GPU still needs is kept as long as necessary.
    """
    torch._C._mps_executable_cache_clear()


def set_executable_cache_limit(n: int) -> None:
    r"""Set the largest number of executables. When it is exceeded, the least recently used one is dropped.

    Arguments:
        n (int): The largest number of entries, 1024 at start. With 0 nothing is kept.

    Raises:
        TypeError: if ``n`` is not an int.
        ValueError: if ``n`` is negative.
    """
    if not isinstance(n, int):
        raise TypeError(f"n must be an int, got {type(n).__name__}")
    if n < 0:
        raise ValueError(
            f"the limit of the executable cache must be 0 or more, but is {n}"
        )
    torch._C._mps_set_executable_cache_limit(n)


def set_executable_cache_enabled(enabled: bool) -> None:
    r"""Set whether operators outside of captures run cached executables instead of MPSGraphs.

    The cache for such operators is off at the start, unless the environment variable
    ``PYTORCH_MPS_EXECUTABLE_CACHE`` is ``1``.

    Arguments:
        enabled (bool): With True they run cached executables.

    Raises:
        TypeError: if ``enabled`` is not a bool.
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool, got {type(enabled).__name__}")
    torch._C._mps_set_executable_cache_enabled(enabled)


def is_executable_cache_enabled() -> bool:
    r"""Return whether operators outside of captures run cached executables."""
    return torch._C._mps_is_executable_cache_enabled()
