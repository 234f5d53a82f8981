# Owner(s): ["module: mps"]

"""Cases for the memory of torch.mps graphs."""

import gc
import unittest

from test_mps_graph import captured, EXACT, GraphTestCase

import torch
import torch.nn as nn
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)
from torch.utils._python_dispatch import TorchDispatchMode


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


class Peak(TorchDispatchMode):
    """Looks at the allocated memory after each operator."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.bytes = max(self.bytes, torch.mps.current_allocated_memory())
        return result


class TestPool(GraphTestCase):
    def test_result_that_another_graph_used(self):
        """It stays a result of the first graph when the other one is gone."""
        x = torch.zeros(8, device="mps")
        first, result = captured(lambda: x + 1)
        other, _ = captured(lambda: result * 2)
        del other, _
        gc.collect()
        last, y = captured(lambda: result * 3)
        result = None
        x.fill_(4)
        first.replay()
        last.replay()
        self.assertEqual(y.cpu(), torch.full((8,), 15.0))

    @parametrize("training", [False, True])
    def test_transformer(self, training):
        """Little more than eager's peak and the outputs, and all of it comes back."""
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
        model = nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)
        model.to("mps").train(training)
        x = torch.randn(4, 32, 64, device="mps")

        def run():
            if not training:
                with torch.no_grad():
                    return [model(x)]
            y = model(x)
            return [
                y.detach(),
                *torch.autograd.grad(y.square().sum(), list(model.parameters())),
            ]

        run()
        before = self.stable_memory_level()
        with Peak() as peak:
            outputs = run()
        held = self.stable_memory_level() - before
        del outputs
        self.assert_level(before)
        graph, outputs = captured(run)
        most = peak.bytes - before + held
        self.assertLess(graph.stats()["pool_bytes"], 1.1 * most)
        # the pool, and a few bytes of scalars
        self.assertLess(
            self.stable_memory_level() - before - graph.stats()["pool_bytes"], 1 << 17
        )
        x.copy_(torch.randn(4, 32, 64))
        state = torch.mps.get_rng_state()
        graph.replay()
        torch.mps.set_rng_state(state)
        self.assertEqual(outputs, run(), **EXACT)
        del outputs
        graph.reset()
        self.assert_level(before)

    def test_temporaries_share_memory(self):
        """Of a chain of large temporaries no more than two exist at a time."""
        x = torch.ones(1 << 18, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x
            for _ in range(50):
                y = y + 1
        self.assertLessEqual(graph.stats()["pool_bytes"], 2 * x.nbytes)
        self.check_filled(graph, x, 5, y, 55.0)

    def test_small_ones_use_the_place_of_a_large_one(self):
        """And a large one later that of a large one, so that a second capture adds no memory."""
        x = torch.ones(1 << 18, device="mps")

        def block():
            total = (x + 1).sum()
            parts = [x[: 1 << 15] + i for i in range(6)]
            total = total + sum(p.sum() for p in parts)
            del parts
            return total + (x + 2).sum()

        graph, total = captured(block)
        size = graph.stats()["pool_bytes"]
        self.assertLess(size, x.nbytes + 6 * (x.nbytes >> 3))
        x.fill_(2.0)
        graph.replay()
        n = 1 << 18
        self.assertEqual(total.item(), n * 3 + (1 << 15) * (2 * 6 + 15) + n * 4)
        del total
        second, total = captured(block, pool=graph.pool())
        self.assertEqual(second.stats()["pool_bytes"], size)
        x.fill_(1.0)
        second.replay()
        self.assertEqual(total.item(), n * 2 + (1 << 15) * (6 + 15) + n * 3)

    def test_no_other_tensor_gets_the_memory(self):
        x = torch.ones(1 << 16, device="mps")
        graph, y = captured(lambda: (x * 2 + 1).exp().log())
        others = [torch.full((1 << 16,), float(i), device="mps") for i in range(20)]
        del y
        others += [
            torch.full((1 << 16,), float(i), device="mps") for i in range(20, 40)
        ]
        for _ in range(3):
            graph.replay()
        for i, other in enumerate(others):
            self.assertEqual(other.cpu(), torch.full((1 << 16,), float(i)))

    def test_outputs_outlive_the_graph(self):
        """What the caller holds stays, and counts; what it does not hold goes."""
        x = torch.ones(1 << 16, device="mps")
        before = self.stable_memory_level()
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = (x * 3).exp().log()
            view = (x + 7)[5:]
        x.fill_(2.0)
        graph.replay()
        del graph
        self.assert_level(before + 2 * x.nbytes)
        others = [torch.full((1 << 16,), 9.0, device="mps") for _ in range(20)]
        self.assertEqual(y.cpu(), torch.full((1 << 16,), 6.0))
        self.assertEqual(view.cpu(), torch.full(((1 << 16) - 5,), 9.0))
        del y, others
        self.assert_level(before + x.nbytes)
        del view
        self.assert_level(before)

    def test_outputs_of_one_graph_as_inputs_of_another(self):
        x = torch.ones(1 << 14, device="mps")
        before = self.stable_memory_level()
        first, y = captured(lambda: x + 1)
        second = torch.mps.MPSGraph()
        with torch.mps.graph(second):
            z = y * 2
        first.reset()
        del y
        gc.collect()
        others = [torch.full((1 << 14,), 9.0, device="mps") for _ in range(8)]
        z.zero_()
        second.replay()
        self.assertEqual(z.cpu(), torch.full((1 << 14,), 4.0))
        del z, others
        second.reset()
        self.assert_level(before)

    def test_shared_pool(self):
        """The second graph uses what the first left free; both are right in the order of capture."""
        x = torch.randn(1 << 16, device="mps")
        handle = torch.mps.graph_pool_handle()

        def block(shift):
            return ((x + shift).exp() * 2).sum()

        before = self.stable_memory_level()
        graphs, outputs = [], []
        for i in range(4):
            graph, output = captured(lambda: block(i), pool=handle)
            outputs.append(output)
            self.assertEqual(graph.pool(), handle)
            graphs.append(graph)
        # of three large temporaries at a time, once and not four times
        self.assertLess(graphs[0].stats()["pool_bytes"], 4 * x.nbytes)
        for _ in range(2):
            x.copy_(torch.randn(1 << 16))
            for i, graph in enumerate(graphs):
                graph.replay()
            self.assertEqual(outputs, [block(i) for i in range(4)], **EXACT)
        first = graphs.pop(0)
        first.reset()
        for graph in graphs:
            graph.replay()
        self.assertEqual(outputs[1:], [block(i) for i in range(1, 4)], **EXACT)
        del graph, graphs, outputs, output
        self.assert_level(before)

    def test_overwrites_are_counted(self):
        """A replay counts in its graph, in those captured later into the pool, and in those that it is made of."""
        x = torch.ones(1 << 12, device="mps")
        handle = torch.mps.graph_pool_handle()
        graphs = [torch.mps.MPSGraph() for _ in range(4)]
        self.assertEqual(graphs[0]._overwrites(), 0)
        results = []
        for graph in graphs[:3]:
            with torch.mps.graph(graph, pool=handle):
                results.append((x * 2).exp() + 1)

        def counts():
            return [graph._overwrites() for graph in graphs]

        self.assertEqual(counts(), [0, 0, 0, 0])
        graphs[1].replay()
        self.assertEqual(counts(), [0, 1, 1, 0])
        graphs[0].replay()
        self.assertEqual(counts(), [1, 2, 2, 0])
        with torch.mps.graph(graphs[3]):
            graphs[1].replay()
        self.assertEqual(counts(), [1, 3, 3, 0])
        results[1].fill_(9)
        x.fill_(0.5)
        graphs[3].replay()
        self.assertEqual(counts(), [1, 4, 4, 1])
        self.assertEqual(results[1], (x * 2).exp() + 1)
        graphs[1].reset()
        self.assertEqual(graphs[1]._overwrites(), 0)
        graphs[3].replay()
        self.assertEqual(counts(), [1, 0, 5, 2])

    def test_replay_that_raises_overwrites_nothing(self):
        x = torch.ones(1 << 12, device="mps")
        graph, y = captured(lambda: x * 2)
        x.resize_(1 << 16)
        with self.assertRaisesRegex(RuntimeError, "another storage"):
            graph.replay()
        self.assertEqual(graph._overwrites(), 0)
        self.assertEqual(y, torch.full((1 << 12,), 2.0))

    def test_memory_that_a_graph_keeps(self):
        """What it used and did not make, also through a graph that it replays."""
        x, unused = torch.ones(1 << 12, device="mps"), torch.ones(1 << 12, device="mps")
        inner, outer = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        self.assertFalse(inner._keeps(x))
        with torch.mps.graph(inner):
            y = x[5:] @ x[5:] + 1
        with torch.mps.graph(outer):
            inner.replay()
        self.assertTrue(outer._keeps(x))
        for tensor, kept in (
            (x, True),
            (x[7:], True),
            (y, False),
            (unused, False),
            (torch.ones(3), False),
        ):
            self.assertEqual(inner._keeps(tensor), kept)
        inner.reset()
        self.assertFalse(inner._keeps(x))

    def test_pool_of_another_graph(self):
        x = torch.ones(1 << 12, device="mps")
        first, second = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(first):
            x + 1
        handle = first.pool()
        del first
        gc.collect()
        with torch.mps.graph(second, pool=handle):
            y = x + 2
        self.check_filled(second, x, 3, y, 5.0)

    def test_empty_cache(self):
        x = torch.randn(1 << 16, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x.exp() * 2
            torch.mps.empty_cache()
            z = (y + 1).log() * 3
        del y
        gc.collect()
        torch.mps.empty_cache()
        others = [torch.full((1 << 16,), 9.0, device="mps") for _ in range(8)]
        x.copy_(torch.randn(1 << 16))
        graph.replay()
        torch.mps.empty_cache()
        self.assertEqual(z, (x.exp() * 2 + 1).log() * 3, **EXACT)
        self.assertEqual(others[0].cpu(), torch.full((1 << 16,), 9.0))

    def test_out_of_memory_in_capture(self):
        x = torch.ones(1 << 16, device="mps")
        before = self.stable_memory_level()
        limit = (
            torch.mps.driver_allocated_memory() + (64 << 20)
        ) / torch.mps.recommended_max_memory()
        torch.mps.set_per_process_memory_fraction(limit)
        try:
            with self.assertRaisesRegex(RuntimeError, "out of memory"):
                with torch.mps.graph(torch.mps.MPSGraph()):
                    [x.repeat(100) for _ in range(50)]
        finally:
            torch.mps.set_per_process_memory_fraction(1.7)
        self.assert_level(before)
        graph, y = captured(lambda: x + 1)
        self.check_filled(graph, x, 4, y, 5.0)

    @parametrize("inner", [False, True])
    def test_replay_in_a_capture_with_its_pool_raises(self, inner):
        """Its steps would write to memory that the block has from the same pool."""
        x = torch.ones(1 << 14, device="mps")
        pool = torch.mps.graph_pool_handle()
        first = torch.mps.MPSGraph()
        with torch.mps.graph(first, pool=pool):
            (x * 2) + 1
        if inner:
            whole = torch.mps.MPSGraph()
            with torch.mps.graph(whole):
                first.replay()
            first = whole
        with self.assertRaisesRegex(
            RuntimeError, "is in the pool of a capture that is underway"
        ):
            with torch.mps.graph(torch.mps.MPSGraph(), pool=pool):
                y = x * 3
                first.replay()
        graph, z = captured(lambda: (x * 3, first.replay())[0])
        self.check_filled(graph, x, 4, z, 12.0)

    def test_dropped_capture(self):
        x = torch.ones(1 << 14, device="mps")
        before = self.stable_memory_level()
        kept = []
        with self.assertRaises(KeyboardInterrupt):
            with torch.mps.graph(torch.mps.MPSGraph()):
                y = x + 1
                kept.append(y * 2)
                raise KeyboardInterrupt
        del y
        self.assert_level(before + x.nbytes)
        self.assertEqual(kept.pop().cpu(), torch.full((1 << 14,), 4.0))
        self.assert_level(before)


instantiate_parametrized_tests(TestPool)

if __name__ == "__main__":
    run_tests()
