"""Runs each operator of a program inside a graph capture, and then replays it, if PYTORCH_TEST_MPS_CAPTURE is 1.

Eager's results and the replay's must be the same bits, in the outputs and in all memory that the operator was given; where
eager gives other bits from run to run, its distance from itself is the measure. The replay starts from the memory and the
random state that the operator started from. Works by being imported: as a plugin of pytest, ``-p mps_capture_mode``.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from mps_capture_rounding import as_near_as_eager_to_itself
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Outputs that the operator does not always write: the inputs of the inner layers, of which one layer has none.
UNWRITTEN = {"aten::_lstm_mps": [5]}
# How often eager is asked at most how far it is from itself, after a difference: of two additions, few orders differ.
EAGER_RUNS = 100
STEPS = ("kernels", "graph_runs", "copies", "fills", "kernel_objects", "host_refreshes")


class CaptureMode(TorchDispatchMode):
    """Captures and replays what is called under it; counts the outcomes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        given = [t for t in leaves if isinstance(t, torch.Tensor) and _is_plain(t)]
        on_device = given or any(str(leaf).startswith("mps") for leaf in leaves if isinstance(leaf, torch.device))
        if not on_device or torch.mps.is_current_stream_capturing():
            return function(*args, **kwargs)
        return self.capture_and_replay(function, args, kwargs, given)

    def capture_and_replay(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[torch.Tensor]
    ) -> Any:
        before = Memory(given)
        random_state = torch.mps.get_rng_state()
        graph = torch.mps.MPSGraph()
        finished = False
        try:
            with torch.mps.graph(graph):
                result = function(*args, **kwargs)
                finished = True
        except Exception as error:
            if "torch.mps graph capture" not in str(error):
                raise  # the operator's own
            self.counts["refused"] += 1
            self.reasons[str(error).split(":")[1].split(",")[0].strip()] += 1
            if finished:
                return result
            # what ran before the refusal must not run twice
            before.restore()
            torch.mps.set_rng_state(random_state)
            return function(*args, **kwargs)
        stats = graph.stats()
        if not any(stats[kind] for kind in STEPS):
            self.counts["nothing to replay"] += 1
            return result
        outputs = _written(function, args, result)

        def eager() -> list[torch.Tensor]:
            before.restore()
            torch.mps.set_rng_state(random_state)
            return [*before.tensors, *_written(function, args, function(*args, **kwargs))]

        self.replay(graph, function, before, random_state, outputs, eager)
        return result

    def replay(
        self,
        graph: Any,
        function: Any,
        before: Memory,
        random_state: torch.Tensor,
        outputs: list[torch.Tensor],
        eager: Callable[[], list[torch.Tensor]],
    ) -> None:
        everything = [*before.tensors, *outputs]
        expected = [_bits(t).clone() for t in everything]
        random_state_after = torch.mps.get_rng_state()
        made_here = [t for t in outputs if _storage(t) not in before.storages]
        for tensor in made_here:
            _bytes_of(tensor).fill_(0x5A)
        before.restore()
        torch.mps.set_rng_state(random_state)
        graph.replay()
        if not torch.equal(torch.mps.get_rng_state(), random_state_after):
            self.counts["different"] += 1
            raise AssertionError(f"the replay of {function} left the generator in another state than eager")
        if all(torch.equal(_bits(tensor), bits) for tensor, bits in zip(everything, expected)):
            self.counts["equal"] += 1
        elif as_near_as_eager_to_itself(
            [_dense(tensor) for tensor in everything],
            [bits.view(tensor.dtype) for tensor, bits in zip(everything, expected)],
            lambda: [_dense(tensor) for tensor in eager()],
            EAGER_RUNS,
        ):
            self.counts["equal as eager is to itself"] += 1
        else:
            self.counts["different"] += 1
            raise AssertionError(f"the replay of {function} gave other values than eager")


class Memory:
    """What the storages of some tensors held."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = tensors
        self.storages = {_storage(t): _bytes_of(t) for t in tensors if t.untyped_storage().nbytes()}
        self.content = {storage: data.clone() for storage, data in self.storages.items()}

    def restore(self) -> None:
        """Writes it back."""
        for storage, data in self.storages.items():
            data.copy_(self.content[storage])


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "mps" and tensor.layout is torch.strided and not tensor.is_quantized


def _written(function: Any, args: tuple[Any, ...], result: Any) -> list[torch.Tensor]:
    """The results with something in them."""
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    unwritten = list(UNWRITTEN.get(function._schema.name, ()))
    for arg in args:
        # which gradients are asked for
        if isinstance(arg, list) and len(arg) == len(outputs) and all(isinstance(wanted, bool) for wanted in arg):
            unwritten += [position for position, wanted in enumerate(arg) if not wanted]
    outputs = [output for position, output in enumerate(outputs) if position not in unwritten]
    return [t for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and _is_plain(t) and t.numel()]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """All memory of the tensor."""
    return torch.empty(0, dtype=torch.uint8, device="mps").set_(tensor.untyped_storage())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's elements as bytes: NaN equals itself, and what lies between elements does not count."""
    dense = _dense(tensor)
    return dense.view(torch.uint8) if dense.numel() else dense


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The elements side by side."""
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # a dimension of size 1 may have any stride
    return dense.as_strided((dense.numel(),), (1,))


def capture_every_operator() -> CaptureMode:
    """From here on, in this process."""
    warnings.filterwarnings("ignore", "torch.mps graph replay: nothing ran")
    mode = CaptureMode()
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode


MODE = capture_every_operator() if os.environ.get("PYTORCH_TEST_MPS_CAPTURE") == "1" else None


def pytest_runtest_teardown() -> None:
    """Writes the outcomes so far to $PYTORCH_TEST_MPS_CAPTURE_REPORT, a folder with a file of JSON for each process."""
    folder = os.environ.get("PYTORCH_TEST_MPS_CAPTURE_REPORT")
    if folder and MODE and MODE.counts:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w") as file:
            json.dump({"operators": MODE.counts, "refusals": MODE.reasons}, file)
