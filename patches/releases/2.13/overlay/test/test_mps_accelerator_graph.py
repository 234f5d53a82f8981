# Owner(s): ["module: mps"]

import gc
import os
import tempfile
import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TEST_MPS, TestCase


@unittest.skipIf(not TEST_MPS, "needs the MPS device")
class TestMPSAcceleratorGraph(TestCase):
    def _capture(self, graph, function):
        with graph:
            return function()

    def test_replay_on_new_input(self):
        x = torch.randn(64, device="mps")
        graph = torch.accelerator.Graph()
        y = self._capture(graph, lambda: (x * 2 + 1).relu())
        self.assertEqual(y, (x * 2 + 1).relu())
        for _ in range(3):
            x.normal_()
            graph.replay()
            self.assertEqual(y, (x * 2 + 1).relu())

    def test_update_in_place(self):
        x = torch.zeros(8, device="mps")
        graph = torch.accelerator.Graph()
        self._capture(graph, lambda: x.add_(1))
        graph.replay()
        graph.replay()
        self.assertEqual(x, torch.full_like(x, 3))

    def test_random_numbers_continue(self):
        torch.mps.manual_seed(7)
        wanted = [torch.rand(16, device="mps") for _ in range(3)]
        torch.mps.manual_seed(7)
        graph = torch.accelerator.Graph()
        drawn = self._capture(graph, lambda: torch.rand(16, device="mps"))
        self.assertEqual(drawn, wanted[0])
        for numbers in wanted[1:]:
            graph.replay()
            self.assertEqual(drawn, numbers)

    def test_shared_pool(self):
        x = torch.randn(1024, device="mps")
        first = torch.accelerator.Graph()
        y = self._capture(first, lambda: x * 2)
        second = torch.accelerator.Graph(pool=first.pool())
        z = self._capture(second, lambda: y + 1)
        self.assertEqual(first.pool(), second.pool())
        x.fill_(3)
        first.replay()
        second.replay()
        self.assertEqual(z, torch.full_like(z, 7))

    def test_several_graphs(self):
        x = torch.ones(4, device="mps")
        graphs = [torch.accelerator.Graph() for _ in range(3)]
        results = [
            self._capture(graph, lambda factor=factor: x * factor)
            for factor, graph in enumerate(graphs, start=2)
        ]
        x.fill_(5)
        for graph in reversed(graphs):
            graph.replay()
        for factor, result in enumerate(results, start=2):
            self.assertEqual(result, torch.full_like(result, 5 * factor))

    def test_stream_is_capturing(self):
        stream = torch.accelerator.current_stream()
        self.assertFalse(stream.is_capturing())
        graph = torch.accelerator.Graph()
        self.assertTrue(self._capture(graph, stream.is_capturing))
        self.assertFalse(stream.is_capturing())

    def test_host_read_is_refused(self):
        x = torch.ones(4, device="mps")
        for mode in ("default", "global", "thread_local", "relaxed"):
            graph = torch.accelerator.Graph(capture_error_mode=mode)
            with self.assertRaisesRegex(RuntimeError, "host"):
                self._capture(graph, lambda: x.sum().item())
            with self.assertRaisesRegex(RuntimeError, "empty"):
                graph.replay()

    def test_block_that_raises_leaves_the_graph_empty(self):
        x = torch.ones(4, device="mps")
        graph = torch.accelerator.Graph()
        with self.assertRaisesRegex(ValueError, "in the middle"):
            with graph:
                x.add_(1)
                raise ValueError("in the middle")
        with self.assertRaisesRegex(RuntimeError, "empty"):
            graph.replay()
        y = self._capture(graph, lambda: x * 2)
        x.fill_(4)
        graph.replay()
        self.assertEqual(y, torch.full_like(y, 8))

    def test_nested_captures_are_refused(self):
        outer, inner = torch.accelerator.Graph(), torch.accelerator.Graph()
        with self.assertRaisesRegex(RuntimeError, "can't be nested"):
            with outer:
                inner.capture_begin()

    def test_keep_graph(self):
        x = torch.ones(4, device="mps")
        graph = torch.accelerator.Graph(keep_graph=True)
        y = self._capture(graph, lambda: x + 1)
        graph.instantiate()
        x.fill_(6)
        graph.replay()
        self.assertEqual(y, torch.full_like(y, 7))
        instantiated = torch.accelerator.Graph()
        self._capture(instantiated, lambda: x + 1)
        with self.assertRaisesRegex(RuntimeError, "keep_graph=True"):
            instantiated.instantiate()

    def test_reset_gives_memory_back(self):
        x = torch.ones(1 << 20, device="mps")
        gc.collect()
        torch.accelerator.synchronize()
        before = torch.mps.current_allocated_memory()
        graph = torch.accelerator.Graph()
        y = self._capture(graph, lambda: x * 2)
        del y
        graph.reset()
        torch.accelerator.synchronize()
        self.assertEqual(torch.mps.current_allocated_memory(), before)
        self._capture(graph, lambda: x * 3)
        graph.replay()

    def test_debug_dump(self):
        x = torch.ones(4, device="mps")
        graph = torch.accelerator.Graph()
        self._capture(graph, lambda: x + 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.dot")
            with self.assertRaisesRegex(RuntimeError, "enable_debug_mode"):
                graph.debug_dump(path)
            graph.enable_debug_mode()
            graph.debug_dump(path)
            with open(path) as file:
                self.assertTrue(file.read().startswith("digraph mps_graph {"))
            with self.assertRaisesRegex(RuntimeError, "could not write"):
                graph.debug_dump(os.path.join(folder, "nowhere", "graph.dot"))


if __name__ == "__main__":
    run_tests()
