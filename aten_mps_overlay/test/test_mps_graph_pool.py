# Owner(s): ["module: mps"]

"""Cases for the memory of torch.mps graphs. The number in a docstring is the promise that the case guards: 12 the pool
shares temporaries, 15 memory is given back, 16 graphs may share a pool, and empty_cache() leaves it alone.
"""

import gc
import time
import unittest

import torch
import torch.nn as nn
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils._python_dispatch import TorchDispatchMode


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


def level():
    gc.collect()
    # completion handlers free memory, in order; the wait includes this number's, which is the last
    torch.ones(1, device="mps").add(1.0, alpha=2.0)
    torch.mps.synchronize()
    return torch.mps.current_allocated_memory()


def settled():
    """Bytes allocated once the GPU is done and garbage is gone."""
    # what one collection frees may hold the last reference to what the next one finds
    found = [level() for _ in range(4)]
    while len(set(found[-4:])) > 1:
        time.sleep(0.01)
        found.append(level())
    return found[-1]


class Peak(TorchDispatchMode):
    """Looks at the allocated memory after each operator."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.bytes = max(self.bytes, torch.mps.current_allocated_memory())
        return result


class TestPool(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def assert_settles(self, expected):
        """Within a while: see settled()."""
        end = time.monotonic() + 5
        while level() != expected and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(level(), expected)

    @parametrize("training", [False, True])
    def test_transformer(self, training):
        """12, 15: no more than eager's peak and the outputs, and all of it comes back."""
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
        before = settled()
        with Peak() as peak:
            outputs = run()
        held = settled() - before
        del outputs
        self.assert_settles(before)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            outputs = run()
        self.assertLessEqual(graph.stats()["pool_bytes"], peak.bytes - before + held)
        # the pool, and a few bytes of scalars
        self.assertLess(settled() - before - graph.stats()["pool_bytes"], 1 << 17)
        x.copy_(torch.randn(4, 32, 64))
        state = torch.mps.get_rng_state()
        graph.replay()
        torch.mps.set_rng_state(state)
        self.assertEqual(outputs, run(), atol=0, rtol=0)
        del outputs
        graph.reset()
        self.assert_settles(before)

    def test_temporaries_share_memory(self):
        """12: of a chain of large temporaries no more than two exist at a time."""
        x = torch.ones(1 << 18, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x
            for _ in range(50):
                y = y + 1
        self.assertLessEqual(graph.stats()["pool_bytes"], 2 * x.nbytes)
        x.fill_(5)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((1 << 18,), 55.0))

    def test_small_ones_use_the_place_of_a_large_one(self):
        """12: freed memory is cut and joined."""
        x = torch.ones(1 << 18, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            total = (x + 1).sum()
            parts = [x[: 1 << 15] + i for i in range(6)]
            total = total + sum(p.sum() for p in parts)
            del parts
            total = total + (x + 2).sum()
        self.assertLessEqual(graph.stats()["pool_bytes"], x.nbytes + (1 << 15))
        x.fill_(2.0)
        graph.replay()
        n = 1 << 18
        self.assertEqual(total.item(), n * 3 + (1 << 15) * (2 * 6 + 15) + n * 4)

    def test_no_other_tensor_gets_the_memory(self):
        """12: not while the graph lives, whatever is freed."""
        x = torch.ones(1 << 16, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = (x * 2 + 1).exp().log()
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
        """15: what the caller holds stays, and counts; what it does not hold goes."""
        x = torch.ones(1 << 16, device="mps")
        before = settled()
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = (x * 3).exp().log()
            view = (x + 7)[5:]
        x.fill_(2.0)
        graph.replay()
        del graph
        self.assert_settles(before + 2 * x.nbytes)
        others = [torch.full((1 << 16,), 9.0, device="mps") for _ in range(20)]
        self.assertEqual(y.cpu(), torch.full((1 << 16,), 6.0))
        self.assertEqual(view.cpu(), torch.full(((1 << 16) - 5,), 9.0))
        del y, others
        self.assert_settles(before + x.nbytes)
        del view
        self.assert_settles(before)

    def test_outputs_of_one_graph_as_inputs_of_another(self):
        """13, 15: memory of a graph that was reset stays for the one that uses it."""
        x = torch.ones(1 << 14, device="mps")
        before = settled()
        first, second = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(first):
            y = x + 1
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
        self.assert_settles(before)

    def test_shared_pool(self):
        """16: the second graph uses what the first left free; both are right in the order of capture."""
        x = torch.randn(1 << 16, device="mps")
        handle = torch.mps.graph_pool_handle()

        def block(shift):
            return ((x + shift).exp() * 2).sum()

        before = settled()
        graphs, outputs = [], []
        for i in range(4):
            graph = torch.mps.MPSGraph()
            with torch.mps.graph(graph, pool=handle):
                outputs.append(block(i))
            self.assertEqual(graph.pool(), handle)
            graphs.append(graph)
        # of three large temporaries at a time, once and not four times
        self.assertLess(graphs[0].stats()["pool_bytes"], 4 * x.nbytes)
        for _ in range(2):
            x.copy_(torch.randn(1 << 16))
            for i, graph in enumerate(graphs):
                graph.replay()
            self.assertEqual(outputs, [block(i) for i in range(4)], atol=0, rtol=0)
        first = graphs.pop(0)
        first.reset()
        for graph in graphs:
            graph.replay()
        self.assertEqual(outputs[1:], [block(i) for i in range(1, 4)], atol=0, rtol=0)
        del graph, graphs, outputs
        self.assert_settles(before)

    def test_overwrites_are_counted(self):
        """16: a replay counts in its graph, in those captured later into the pool, and in those that it is made of."""
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
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x * 2
        x.resize_(1 << 16)
        with self.assertRaisesRegex(RuntimeError, "another storage"):
            graph.replay()
        self.assertEqual(graph._overwrites(), 0)
        self.assertEqual(y, torch.full((1 << 12,), 2.0))

    def test_memory_that_a_graph_keeps(self):
        """13: what it used and did not make, also through a graph that it replays."""
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
        """16: by its pool(), and after that graph is gone."""
        x = torch.ones(1 << 12, device="mps")
        first, second = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(first):
            x + 1
        handle = first.pool()
        del first
        gc.collect()
        with torch.mps.graph(second, pool=handle):
            y = x + 2
        x.fill_(3)
        second.replay()
        self.assertEqual(y.cpu(), torch.full((1 << 12,), 5.0))

    def test_empty_cache(self):
        """16: it never frees what a live graph needs, in the capture and after it."""
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
        self.assertEqual(z, (x.exp() * 2 + 1).log() * 3, atol=0, rtol=0)
        self.assertEqual(others[0].cpu(), torch.full((1 << 16,), 9.0))

    def test_out_of_memory_in_capture(self):
        """9, 15: it raises as in eager, and everything comes back."""
        x = torch.ones(1 << 16, device="mps")
        before = settled()
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
        self.assert_settles(before)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x + 1
        x.fill_(4)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((1 << 16,), 5.0))

    def test_dropped_capture(self):
        """9, 15: what survives an exception is ordinary memory."""
        x = torch.ones(1 << 14, device="mps")
        before = settled()
        kept = []
        with self.assertRaises(KeyboardInterrupt):
            with torch.mps.graph(torch.mps.MPSGraph()):
                y = x + 1
                kept.append(y * 2)
                raise KeyboardInterrupt
        del y
        self.assert_settles(before + x.nbytes)
        self.assertEqual(kept.pop().cpu(), torch.full((1 << 14,), 4.0))
        self.assert_settles(before)

    def test_small_graph_takes_little_of_the_driver(self):
        """28: a pool begins small, and grows with what is asked of it."""
        x = torch.ones(16, device="mps")
        x + 1
        settled()
        torch.mps.empty_cache()
        driver = torch.mps.driver_allocated_memory()
        graphs = [torch.mps.MPSGraph() for _ in range(8)]
        outputs = []
        for graph in graphs:
            with torch.mps.graph(graph):
                outputs.append(x + 1)
        taken = torch.mps.driver_allocated_memory() - driver
        # a heap of 1 MiB for each, and what eager's own pools have taken meanwhile
        self.assertLessEqual(taken, 8 * (1 << 20) + (10 << 20))
        with torch.mps.graph(torch.mps.MPSGraph(), pool=graphs[0].pool()):
            large = torch.ones(1 << 20, device="mps") + 1
        self.assertEqual(large.cpu(), torch.full((1 << 20,), 2.0))
        x.fill_(4)
        for graph, y in zip(graphs[1:], outputs[1:]):
            graph.replay()
            self.assertEqual(y.cpu(), torch.full((16,), 5.0))

    def test_many_graphs(self):
        """15: graphs made and dropped leave nothing."""
        x = torch.randn(64, 64, device="mps")

        def once():
            graph = torch.mps.MPSGraph()
            with torch.mps.graph(graph):
                y = (x @ x).softmax(-1)
            graph.replay()
            return y

        once()
        before, driver = settled(), torch.mps.driver_allocated_memory()
        for _ in range(200):
            once()
        self.assert_settles(before)
        self.assertLessEqual(torch.mps.driver_allocated_memory(), driver)


instantiate_parametrized_tests(TestPool)

if __name__ == "__main__":
    run_tests()
