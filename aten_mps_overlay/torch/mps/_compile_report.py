"""What :func:`torch.compile` asks and tells of this device."""

from typing import Any, Dict, List, Sequence

import torch


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


def check_default_backend(inputs: Sequence[Any]) -> None:
    """Raise if the default backend of torch.compile does not know the device, and name the one that does."""
    if not any(isinstance(i, torch.Tensor) and i.device.type == "mps" for i in inputs):
        return
    from torch._inductor.codegen import common

    common.init_backend_registration()
    if common.get_wrapper_codegen_for_device("mps") is None:
        raise RuntimeError(
            "torch.compile: in this release of PyTorch the default backend does not support MPS. Use "
            "backend='mpsgraphs', which captures and replays graphs."
        )


compile_report.__module__ = "torch.mps"
