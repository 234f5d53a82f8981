r"""Captures a traced graph, in pieces where some of its operators can't be captured."""

import copy
import operator
import warnings
from dataclasses import dataclass
from types import FunctionType
from typing import Any, List, Optional, Sequence, Set, Tuple, Union

import torch
from torch.fx import Node

from ._static_memory import StateBefore
from ._traced_graph import (
    devices,
    forbids_capture,
    is_of_host,
    is_random,
    line_of,
    mutated,
    reads_tensors,
    TracedGraph,
    varies,
)
from ._traced_run import CapturedStep, EagerStep, keep_dense, TracedRun, Values
from .graphs import _PoolHandle, graph, MPSGraph


Steps = List[Union[CapturedStep, EagerStep]]


@dataclass
class Split:
    """An operator that runs eagerly between captured pieces."""

    operator: str
    reason: str
    line: str


class _CantCapture(Exception):
    """Nothing can be captured now, whatever the operators."""


def _name_of(node: Node) -> str:
    target: Any = node.target
    return target.__name__ if isinstance(target, FunctionType) else str(target)


class TracedCapture:
    """Captures a traced graph, and learns from errors which of its operators must run eagerly between the pieces.

    Arguments:
        traced: The graph.
        name: What warnings call it.

    Attributes:
        is_on_device: Whether any operator runs on the device.
        is_possible: Whether there is anything to capture.
        splits: The operators that raised in a capture.
    """

    def __init__(self, traced: TracedGraph, name: str) -> None:
        self.traced = traced
        self.name = name
        self.is_on_device = any("mps" in devices(n) for n in traced.nodes)
        self.is_possible = self.is_on_device and not any(
            forbids_capture(n) for n in traced.nodes
        )
        self.splits: List[Split] = []
        self._eager_nodes = {n for n in traced.nodes if is_of_host(n)}

    def of_all_sizes(self) -> "TracedCapture":
        """Return one that lets operators run eagerly if one of their sizes varies."""
        varying = [n for n in self.traced.nodes if varies(n)]
        others = copy.copy(self)
        others._eager_nodes = self._eager_nodes.union(varying)
        others.is_possible = any(
            "mps" in devices(n) and n not in others._eager_nodes
            for n in self.traced.nodes
        )
        if others.is_possible:
            reason = "a size varies, and max_graphs is reached"
            self.splits += [
                Split(_name_of(n), reason, line_of(n))
                for n in varying
                if devices(n) and n.target is not operator.getitem
            ]
        return others

    def run(self, run: TracedRun, pool: _PoolHandle) -> Steps:
        """Run all operators, and return steps that repeat them if the run is whole."""
        steps: Steps = []
        done = 0
        splits_before = len(self.splits)
        while done < len(self.traced.nodes):
            end, is_eager = self._step_from(done)
            nodes = self.traced.nodes[done:end]
            if is_eager:
                for node in nodes:
                    keep_dense(run, node)
                steps.append(EagerStep(nodes))
            else:
                try:
                    captured = self._capture_piece(run, done, end, pool)
                except _CantCapture:
                    run.go_on_eagerly(self.traced.nodes[done:])
                    break
                if captured is None:
                    continue  # one operator more runs eagerly now
                steps.append(captured)
            done = end
        if len(self.splits) > splits_before == 0:
            self._tell()
        return steps

    def _step_from(self, first: int) -> Tuple[int, bool]:
        """The end of the operators that all run eagerly or all don't, and which. Numbers go with those before."""
        is_eager: Optional[bool] = None
        for position, node in enumerate(self.traced.nodes[first:], first):
            if node in self._eager_nodes or devices(node) or reads_tensors(node):
                here = node in self._eager_nodes
                if is_eager is not None and here != is_eager:
                    return position, is_eager
                is_eager = here
        return len(self.traced.nodes), is_eager is not False

    def _new_graph(self) -> MPSGraph:
        mps_graph = MPSGraph()
        # StateBefore brings no other one back
        mps_graph._draw_from_default_only()
        return mps_graph

    def _capture_piece(
        self, run: TracedRun, first: int, end: int, pool: _PoolHandle
    ) -> Optional[CapturedStep]:
        """Returns None if one of the operators can't be captured; it is known by then."""
        nodes = self.traced.nodes[first:end]
        written = [run.values[n] for n in mutated(nodes)]
        before = StateBefore(written, draws=any(map(is_random, nodes)))
        own: Set[Node] = set()
        scalars: Values = {}
        mps_graph = self._new_graph()
        has_begun = False
        node: Optional[Node] = None
        try:
            # Whoever replays it compares the places of all inputs.
            with graph(
                mps_graph, pool=pool, check_input_liveness=False, empty_cache=False
            ):
                has_begun = True
                for position, node in enumerate(nodes, first):
                    run.call(node, scalars)
                    own.add(node)
                    for unused in self.traced.unused_after(position):
                        if unused in own:
                            del run.values[unused]
                node = None
            return CapturedStep(nodes, mps_graph)
        except Exception as error:
            before.bring_back()
            if not has_begun:
                raise _CantCapture from error
            if isinstance(error, torch.OutOfMemoryError):
                self.is_possible = False
                self._note("the whole function", nodes[0], error)
                raise _CantCapture from error
            refused = node
            if refused is None:
                refused = self._find_refused(run, nodes, pool)
                before.bring_back()
            for one in [refused] if refused else nodes:
                self._eager_nodes.add(one)
                self._eager_nodes.update(
                    n for n in one.users if n.target is operator.getitem
                )
            self._note(
                _name_of(refused) if refused else "one of several",
                refused or nodes[0],
                error,
            )
            return None

    def _find_refused(
        self, run: TracedRun, nodes: Sequence[Node], pool: _PoolHandle
    ) -> Optional[Node]:
        """The operator that makes a capture fail when it ends."""
        for node in nodes:
            try:
                with graph(self._new_graph(), pool=pool, empty_cache=False):
                    run.call(node, {})
            except RuntimeError:
                return node
        return None

    def _note(self, name: str, node: Node, error: Exception) -> None:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = reason.partition(" Move ")[0]  # the split is the cure
        self.splits.append(Split(name, reason, line_of(node)))

    def _tell(self) -> None:
        lines = "".join(
            f"\n  {split.operator}: {split.reason}"
            + (f" ({split.line})" if split.line else "")
            for split in self.splits
        )
        warnings.warn(
            f"torch.compile(backend='mpsgraphs'): parts of {self.name} run eagerly between captured "
            f"graphs; torch.mps.compile_report() lists them:{lines}"
        )
