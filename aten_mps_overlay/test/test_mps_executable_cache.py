# Owner(s): ["module: mps"]

"""Cases for the cache of MPSGraph executables. The number in a docstring is the promise that the case guards: 23 one
compile for the same graph, shapes and types; 24 matmul, convolution and attention hit it; 25 it is bounded.
"""

import os
import subprocess
import sys
import unittest

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

WORK = {
    "matmul": lambda x: x @ x.mT,
    "addmm": lambda x: torch.addmm(x[0], x[0], x[1]),
    "convolution": lambda x: F.conv2d(x[None], x[:, None, :3, :3], groups=4),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "constants": lambda x: torch.eye(5, device="mps") + x[0, :5, :5],
}


class TestExecutableCache(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch.mps.executable_cache_clear()

    def tearDown(self):
        torch.mps.set_executable_cache_enabled(False)
        torch.mps.set_executable_cache_limit(1024)
        super().tearDown()

    @parametrize("name", list(WORK))
    def test_eager(self, name):
        """23, 24: from the second call on each run is a hit, and results are those without the cache."""
        inputs = [torch.randn(4, 8, 8, device="mps") for _ in range(4)]
        expected = [WORK[name](x) for x in inputs]
        self.assertEqual(torch.mps.executable_cache_stats()["misses"], 0)
        torch.mps.set_executable_cache_enabled(True)
        runs = 0
        for i, (x, y) in enumerate(zip(inputs, expected)):
            before = torch.mps.executable_cache_stats()
            self.assertEqual(WORK[name](x), y, atol=0, rtol=0)
            stats = torch.mps.executable_cache_stats()
            hits, misses = (stats[k] - before[k] for k in ("hits", "misses"))
            # the comparison runs graphs too, so look at the operators again
            if i == 0:
                runs = hits + misses
                self.assertGreater(misses, 0)
            else:
                self.assertEqual((hits, misses), (runs, 0))
        self.assertEqual(stats["entries"], stats["misses"])
        self.assertEqual(stats["evictions"], 0)

    def test_backward(self):
        """23, 24: gradients too."""
        w = torch.randn(8, 4, 3, 3, device="mps", requires_grad=True)

        def step(x):
            loss = F.conv2d(x, w).relu().square().sum()
            return torch.autograd.grad(loss, [w])[0]

        inputs = [torch.randn(2, 4, 6, 6, device="mps") for _ in range(3)]
        expected = [step(x) for x in inputs]
        torch.mps.set_executable_cache_enabled(True)
        step(inputs[0])
        misses = torch.mps.executable_cache_stats()["misses"]
        got = [step(x) for x in inputs]
        self.assertEqual(torch.mps.executable_cache_stats()["misses"], misses)
        torch.mps.set_executable_cache_enabled(False)
        self.assertEqual(got, expected, atol=0, rtol=0)

    def test_other_shapes_and_types_miss(self):
        """23: they are other executables."""
        torch.mps.set_executable_cache_enabled(True)
        for shape, dtype in (
            ((3, 3), torch.float),
            ((4, 4), torch.float),
            ((4, 4), torch.half),
        ):
            x = torch.ones(shape, dtype=dtype, device="mps")
            before = torch.mps.executable_cache_stats()["misses"]
            x @ x
            self.assertEqual(torch.mps.executable_cache_stats()["misses"], before + 1)
            x @ x
            self.assertEqual(torch.mps.executable_cache_stats()["misses"], before + 1)

    def test_captures_share(self):
        """23: a second capture of the same work compiles nothing, nor does a capture of what eager has run."""
        x = torch.randn(8, 8, device="mps")

        def capture():
            graph = torch.mps.MPSGraph()
            with torch.mps.graph(graph):
                y = (x @ x).softmax(-1)
            return graph, y

        graphs = [capture()]
        misses = torch.mps.executable_cache_stats()["misses"]
        self.assertGreater(misses, 0)
        graphs += [capture() for _ in range(3)]
        stats = torch.mps.executable_cache_stats()
        self.assertEqual((stats["misses"], stats["hits"]), (misses, 3 * misses))
        x.copy_(torch.randn(8, 8))
        expected = (x @ x).softmax(-1)
        for graph, y in graphs:
            graph.replay()
            self.assertEqual(y, expected, atol=0, rtol=0)
        torch.mps.set_executable_cache_enabled(True)
        (x @ x).softmax(-1)
        self.assertEqual(torch.mps.executable_cache_stats()["misses"], misses)

    @parametrize("limit", [0, 1, 3])
    def test_limit(self, limit):
        """25: no more entries than that, the least recently used goes, and results stay right."""
        xs = [torch.randn(n, n, device="mps") for n in range(2, 8)]
        expected = [x @ x for x in xs]
        torch.mps.set_executable_cache_limit(limit)
        torch.mps.set_executable_cache_enabled(True)
        for _ in range(2):
            got = [x @ x for x in xs]
        stats = torch.mps.executable_cache_stats()
        self.assertEqual((stats["entries"], stats["limit"]), (limit, limit))
        self.assertEqual(
            (stats["hits"], stats["misses"], stats["evictions"]), (0, 12, 12 - limit)
        )
        torch.mps.set_executable_cache_enabled(False)
        self.assertEqual(got, expected, atol=0, rtol=0)

    def test_least_recently_used_goes_first(self):
        """25"""
        a, b, c = (torch.ones(n, n, device="mps") for n in (2, 3, 4))
        torch.mps.set_executable_cache_limit(2)
        torch.mps.set_executable_cache_enabled(True)
        for x in (a, b, a, c):  # b goes
            x @ x
        before = torch.mps.executable_cache_stats()
        a @ a
        c @ c
        self.assertEqual(torch.mps.executable_cache_stats()["hits"], before["hits"] + 2)
        b @ b
        self.assertEqual(
            torch.mps.executable_cache_stats()["misses"], before["misses"] + 1
        )

    def test_graphs_and_the_gpu_keep_what_they_need(self):
        """25: clearing takes nothing from a captured graph or from work in flight."""
        x = torch.randn(64, 64, device="mps")
        expected = (x @ x) @ x
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = (x @ x) @ x
        torch.mps.set_executable_cache_enabled(True)
        for _ in range(5):
            z = (x @ x) @ x
            graph.replay()
            torch.mps.executable_cache_clear()
        self.assertEqual(torch.mps.executable_cache_stats()["entries"], 0)
        torch.mps.set_executable_cache_enabled(False)
        self.assertEqual((y, z), (expected, expected), atol=0, rtol=0)

    def test_bad_limit(self):
        with self.assertRaisesRegex(ValueError, "must be 0 or more, but is -1"):
            torch.mps.set_executable_cache_limit(-1)

    def test_environment_variable(self):
        """The switch at start."""
        program = "import torch; print(torch.mps.is_executable_cache_enabled())"
        for value, enabled in (("1", "True"), ("0", "False")):
            environment = {**os.environ, "PYTORCH_MPS_EXECUTABLE_CACHE": value}
            output = subprocess.check_output(
                [sys.executable, "-c", program], env=environment, text=True
            )
            self.assertEqual(output.strip(), enabled)


instantiate_parametrized_tests(TestExecutableCache)

if __name__ == "__main__":
    run_tests()
