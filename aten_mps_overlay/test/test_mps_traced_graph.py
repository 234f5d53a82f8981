# Owner(s): ["module: mps"]

"""Cases for traced graphs that run in pieces, captured or operator by operator: what torch.compile(backend="mpsgraphs") is
built on.
"""

import unittest

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.mps._static_memory import StateBefore
from torch.mps._traced_graph import (
    devices,
    forbids_capture,
    is_of_host,
    is_random,
    mutated,
    TracedGraph,
)
from torch.mps._traced_run import CapturedStep, EagerStep, TracedRun
from torch.testing._internal.common_utils import run_tests, TestCase


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

EXACT = {"atol": 0, "rtol": 0}


def trace(function, *args):
    return TracedGraph(make_fx(lambda *given: [function(*given)])(*args))


def on_device(*shape):
    return torch.rand(shape).to("mps")


def run_of(traced, *args):
    return TracedRun(traced.module, dict(zip(traced.placeholders, args)))


def names(nodes):
    return [str(node.target) for node in nodes]


class TestTracedGraph(TestCase):
    def test_the_host_comes_first(self):
        traced = trace(
            lambda x, h: (x + 1) * (h * 2).to("mps"), on_device(4), torch.ones(4)
        )
        self.assertEqual(names(traced.nodes)[0], "aten.mul.Tensor")
        self.assertTrue(is_of_host(traced.nodes[0]))
        self.assertEqual(devices(traced.nodes[-1]), {"mps"})

    def test_what_operators_do(self):
        def program(x):
            x.add_(1)
            return torch.bernoulli(x * 0)

        traced = trace(program, on_device(4))
        self.assertEqual(mutated(traced.nodes), traced.placeholders)
        self.assertEqual([is_random(n) for n in traced.nodes], [False, False, True])
        self.assertFalse(any(map(forbids_capture, traced.nodes)))

    def test_values_that_are_needed_no_more(self):
        traced = trace(lambda x: (x + 1).exp().sin(), on_device(4))
        first, second, third = traced.nodes
        self.assertEqual(traced.unused_after(0), traced.placeholders)
        self.assertEqual(traced.unused_after(1), [first])
        self.assertNotIn(third, traced.unused_after(2))


class TestTracedRun(TestCase):
    def program(self, x):
        return (x + 1).exp() * 2

    def test_operator_by_operator(self):
        traced = trace(self.program, on_device(8))
        step = EagerStep(traced.nodes)
        for _ in range(2):
            x = on_device(8)
            run = run_of(traced, x)
            self.assertTrue(step.run(run))
            self.assertEqual(run.values[traced.results[0]], self.program(x), **EXACT)

    def test_captured(self):
        x = on_device(8)
        traced = trace(self.program, x)
        run = run_of(traced, x)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            for node in traced.nodes:
                run.call(node)
        step = CapturedStep(traced.nodes, graph)
        result = run.values[traced.results[0]]
        for _ in range(2):
            x.copy_(torch.rand(8))
            result.fill_(-1)
            self.assertTrue(step.run(run))
            self.assertEqual(result, self.program(x), **EXACT)

    def test_captured_operators_read_the_results_of_others(self):
        traced = trace(lambda x: x + 1, on_device(8))
        (node,) = traced.nodes
        place = torch.zeros(8, device="mps")
        step = EagerStep(traced.nodes, {node: place})
        x = on_device(8)
        self.assertTrue(step.run(run_of(traced, x)))
        self.assertEqual(place, x + 1, **EXACT)
        # of another shape, captured operators can't go on with it
        self.assertFalse(step.run(run_of(traced, on_device(4))))

    def test_a_failed_attempt_is_undone(self):
        def program(x):
            return x.add_(torch.rand(4, device="mps"))

        x = on_device(4)
        traced = trace(program, x.clone())
        run = run_of(traced, x)
        value, state = x.clone(), torch.mps.get_rng_state()
        before = StateBefore([x])
        EagerStep(traced.nodes).run(run)
        self.assertNotEqual(x, value)
        before.bring_back()
        self.assertEqual(x, value, **EXACT)
        self.assertEqual(torch.mps.get_rng_state(), state)

    def test_single_numbers_of_the_host(self):
        traced = trace(lambda x, h: x * h, on_device(4), torch.tensor(2.0))
        run = run_of(traced, on_device(4), torch.tensor(3.0))
        scalars = {}
        run.call(traced.nodes[0], scalars)
        (moved,) = scalars.values()
        self.assertEqual(moved.device.type, "mps")


if __name__ == "__main__":
    run_tests()
