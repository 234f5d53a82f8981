# Owner(s): ["module: mps"]

"""Cases for the bindings of MPSCommandGraph that torch.mps.MPSGraph is built on."""

import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

EXACT = {"atol": 0, "rtol": 0}


class TestGraphBindings(TestCase):
    def test_capture_and_replay(self):
        x = torch.rand(64).to("mps")
        graph = torch._C._MPSGraph()
        graph.capture_begin()
        self.assertTrue(torch._C._mps_isCurrentStreamCapturing())
        y = x.exp() + 1
        graph.capture_end()
        self.assertFalse(torch._C._mps_isCurrentStreamCapturing())
        for _ in range(2):
            x.copy_(torch.rand(64))
            y.fill_(-1)
            graph.replay()
            self.assertEqual(y, x.exp() + 1, **EXACT)
        self.assertEqual(graph.stats()["replays"], 2)
        self.assertEqual(
            [step["op"] for step in graph._dump()["steps"]][-1], "aten::add"
        )
        graph.reset()
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            graph.replay()

    def test_abort(self):
        x = torch.ones(8, device="mps")
        graph = torch._C._MPSGraph()
        graph.capture_begin()
        x + 1
        graph._capture_abort()
        self.assertFalse(torch._C._mps_isCaptureUnderway())
        self.assertEqual(graph.stats()["kernels"] + graph.stats()["graph_runs"], 0)

    def test_watched_tensors(self):
        x = torch.ones(8, device="mps")
        graph = torch._C._MPSGraph()
        graph.capture_begin()
        x + 1
        graph.capture_end()
        self.assertTrue(torch._C._mps_isWatchedByGraph(x))
        graph.reset()
        self.assertFalse(torch._C._mps_isWatchedByGraph(x))

    def test_places(self):
        x = torch.ones(8, device="mps")
        place = torch._C._mps_memoryKeyOf(x)
        self.assertNotEqual(place, torch._C._mps_memoryKeyOf(x[1:]))
        scalar = torch.ones((), device="mps")
        places = place + torch._C._mps_memoryKeyOf(scalar)
        self.assertTrue(torch._C._mps_haveMemoryKeys((scalar, 2, x), [2, 0], places))
        self.assertFalse(torch._C._mps_haveMemoryKeys((x, 2, scalar), [2, 0], places))
        for other in (x[1:], x[:4], x.view(2, 4), x.view(torch.int32), x.clone(), 1):
            for args in ((scalar, 2, other), (other, 2, x)):
                self.assertFalse(torch._C._mps_haveMemoryKeys(args, [2, 0], places))


if __name__ == "__main__":
    run_tests()
