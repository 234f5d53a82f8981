"""Runs each operator of a program inside a graph capture, and then replays it, if PYTORCH_TEST_MPS_CAPTURE is 1.

Eager's results and the replay's must be the same bits, in the outputs and in all memory that the operator was given; where
eager gives other bits from run to run, each element's distance from itself is the measure. It is replayed twice: from the
memory and the random state that the operator started from, and after other numbers were written into its inputs, which
are put back then. Works by being imported: as a plugin of pytest, ``-p mps_capture_mode``. With
PYTORCH_TEST_MPS_CAPTURE_NO_REPLAY=1 the replays are left out, and each operator that does anything must be seen to differ.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from mps_capture_rounding import as_near_as_eager_to_itself
from mps_changed_inputs import bytes_of, change_numbers, storage_of
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Outputs that the operator does not always write: the inputs of the inner layers, of which one layer has none.
UNWRITTEN = {"aten::_lstm_mps": [5]}
# How often eager is asked at most how far it is from itself, after a difference: of two additions, few orders differ.
EAGER_RUNS = 100
# Of the memory that an operator was given or gives: with more, it is not run on other numbers.
MOST_BYTES = 1 << 24
STEPS = ("kernels", "graph_runs", "copies", "fills", "kernel_objects", "host_refreshes")


class CaptureMode(TorchDispatchMode):
    """Captures and replays what is called under it; counts the outcomes."""

    def __init__(self, replays: bool = True) -> None:
        super().__init__()
        self.replays = replays
        self.counts: Counter[str] = Counter()
        # the outcomes with changed inputs, of those that gave the same without
        self.changed: Counter[str] = Counter()
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
        after = Memory([*given, *outputs])
        random_state_after = torch.mps.get_rng_state()

        def eager() -> list[torch.Tensor]:
            torch.mps.set_rng_state(random_state)
            return [*given, *_written(function, args, function(*args, **kwargs))]

        trial = Trial(function, graph, before, outputs, random_state, eager)
        try:
            outcome = self.replay(trial, after.bits(), random_state_after)
            self.counts[outcome] += 1
            if outcome == "different":
                raise AssertionError(f"the replay of {function} gave other values than eager")
            outcome = self.replay_changed(trial)
            self.changed[outcome] += 1
            if outcome == "different":
                raise AssertionError(f"the replay of {function} gave other values than eager, on changed inputs")
        finally:
            after.restore()
            torch.mps.set_rng_state(random_state_after)
        return result

    def replay_changed(self, trial: Trial) -> str:
        """Writes other numbers into the inputs, and compares with eager on them; returns the outcome."""
        given = trial.before.tensors
        if sum(bytes_of(tensor).numel() for tensor in [*given, *trial.outputs]) > MOST_BYTES:
            return "too large"
        trial.before.restore()
        change_numbers(given)
        changed = Memory(given)
        if changed.is_as(trial.before):
            return "inputs that cannot be changed"
        try:
            expected = [_bits(tensor).clone() for tensor in trial.eager()]
            torch.mps.synchronize()
        except Exception:
            return "eager raises"
        return self.replay(replace(trial, before=changed), expected, torch.mps.get_rng_state())

    def replay(self, trial: Trial, expected: list[torch.Tensor], random_state_after: torch.Tensor) -> str:
        """Replays from the memory in `trial.before`; returns the outcome."""
        before = trial.before
        everything = [*before.tensors, *trial.outputs]
        for tensor in trial.outputs:
            if storage_of(tensor) not in before.storages:
                bytes_of(tensor).fill_(0x5A)
        before.restore()
        torch.mps.set_rng_state(trial.random_state)

        def is_as_expected() -> bool:
            return torch.equal(torch.mps.get_rng_state(), random_state_after) and all(
                torch.equal(_bits(tensor), bits) for tensor, bits in zip(everything, expected)
            )

        def eager_again() -> list[torch.Tensor]:
            before.restore()
            return [_dense(tensor) for tensor in trial.eager()]

        if is_as_expected():
            # The replay has nothing to do that could be seen.
            self.submit(trial.graph)
            return "no effect visible" if is_as_expected() else "different"
        self.submit(trial.graph)
        if is_as_expected():
            return "equal"
        found = [_dense(tensor).clone() for tensor in everything]
        wanted = [bits.view(tensor.dtype) for tensor, bits in zip(everything, expected)]
        if torch.equal(torch.mps.get_rng_state(), random_state_after) and as_near_as_eager_to_itself(
            found, wanted, eager_again, EAGER_RUNS
        ):
            return "equal as eager is to itself"
        return "different"

    def submit(self, graph: Any) -> None:
        """Replays, unless it is to be seen what comes of it when nothing does."""
        if self.replays:
            graph.replay()


class Memory:
    """What the storages of some tensors hold."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = list(tensors)
        self.storages = {storage_of(t): bytes_of(t) for t in tensors if t.untyped_storage().nbytes()}
        self.content = {storage: data.clone() for storage, data in self.storages.items()}

    def restore(self) -> None:
        """Writes it back."""
        for storage, data in self.storages.items():
            data.copy_(self.content[storage])

    def bits(self) -> list[torch.Tensor]:
        """Copies of the tensors' elements, as bytes."""
        return [_bits(tensor).clone() for tensor in self.tensors]

    def is_as(self, other: Memory) -> bool:
        """Whether the storages of both held the same bytes: an operator gives an empty `out` one of its own."""
        common = self.content.keys() & other.content.keys()
        return all(torch.equal(self.content[storage], other.content[storage]) for storage in common)


@dataclass(frozen=True)
class Trial:
    """One captured operator, and what its replays begin with."""

    function: Any
    graph: Any
    before: Memory
    outputs: list[torch.Tensor]
    random_state: torch.Tensor
    # Runs the operator on what the memory holds now; returns what it was given and the results.
    eager: Callable[[], list[torch.Tensor]]


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
    mode = CaptureMode(replays=os.environ.get("PYTORCH_TEST_MPS_CAPTURE_NO_REPLAY") != "1")
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode


MODE = capture_every_operator() if os.environ.get("PYTORCH_TEST_MPS_CAPTURE") == "1" else None


def pytest_runtest_teardown() -> None:
    """Writes the outcomes so far to $PYTORCH_TEST_MPS_CAPTURE_REPORT, a folder with a file of JSON for each process."""
    folder = os.environ.get("PYTORCH_TEST_MPS_CAPTURE_REPORT")
    if folder and MODE and MODE.counts:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w") as file:
            json.dump({"operators": MODE.counts, "changed inputs": MODE.changed, "refusals": MODE.reasons}, file)
