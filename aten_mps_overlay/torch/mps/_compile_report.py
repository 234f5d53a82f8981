"""The report of ``torch.compile(backend="mpsgraphs")``."""

from typing import Any, Dict, List


def compile_report() -> List[Dict[str, Any]]:
    r"""Return a report on the functions that ``torch.compile(backend="mpsgraphs")`` compiled.

    Returns:
        A list of dicts, one for each traced graph of a compiled function that still exists:
        ``function`` (Dynamo's number, and the first line), ``part`` (``"inference"``,
        ``"forward"`` or ``"backward"``), ``graphs`` (the number of kept graphs: one for each set
        of shapes and weights), ``pieces`` (for each graph, its number of :class:`MPSGraph` objects),
        ``splits`` (operators that run eagerly between pieces, each with ``operator``, ``reason``
        and ``line``), ``captures``, ``replays``, ``eager_calls`` (calls with work for the device
        that ran eagerly, completely or after a split) and ``not_padded`` (with the option
        ``pad_batch``, why batches are not padded, and empty if they are).

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> double = torch.compile(lambda x: x * 2, backend="mpsgraphs")
        >>> with torch.no_grad():
        ...     y = double(torch.ones(3, device="mps"))
        >>> torch.mps.compile_report()[-1]["captures"]
        1
    """
    # imported lazily: pulls in torch.fx
    from ._compiled_graphs import reports

    return reports()


compile_report.__module__ = "torch.mps"
