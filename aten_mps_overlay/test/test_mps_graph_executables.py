# Owner(s): ["module: mps"]

"""Cases for the executables that captured graphs share."""

import unittest

from test_mps_executable_cache import check_sums, counts_of, new_inputs, OPERATIONS, run
from test_mps_graph import captured, EXACT

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


class TestGraphExecutables(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch.mps.executable_cache_clear()

    def tearDown(self):
        torch.mps.set_executable_cache_enabled(False)
        super().tearDown()

    def test_captures_share(self):
        """A second capture of the same work compiles nothing, nor does a capture of what eager has run."""
        x = torch.randn(8, 8, device="mps")
        work = lambda: (x @ x).softmax(-1)  # noqa: E731
        graphs = [captured(work)]
        misses = torch.mps.executable_cache_stats()["misses"]
        self.assertGreater(misses, 0)
        graphs += [captured(work) for _ in range(3)]
        stats = torch.mps.executable_cache_stats()
        self.assertEqual((stats["misses"], stats["hits"]), (misses, 3 * misses))
        x.copy_(torch.randn(8, 8))
        expected = (x @ x).softmax(-1)
        for graph, y in graphs:
            graph.replay()
            self.assertEqual(y, expected, **EXACT)
        torch.mps.set_executable_cache_enabled(True)
        (x @ x).softmax(-1)
        self.assertEqual(torch.mps.executable_cache_stats()["misses"], misses)

    def test_graphs_and_the_gpu_keep_what_they_need(self):
        """Clearing takes nothing from a captured graph or from work in flight."""
        x = torch.randn(64, 64, device="mps")
        graph, y = captured(lambda: (x @ x) @ x)
        x.copy_(torch.randn(64, 64))
        expected = (x @ x) @ x
        torch.mps.set_executable_cache_enabled(True)
        for _ in range(5):
            z = (x @ x) @ x
            graph.replay()
            torch.mps.executable_cache_clear()
        self.assertEqual(torch.mps.executable_cache_stats()["entries"], 0)
        torch.mps.set_executable_cache_enabled(False)
        self.assertEqual((y, z), (expected, expected), **EXACT)

    @parametrize("name", list(OPERATIONS))
    def test_parameters_in_captures(self, name):
        """Of two captures of the same call the second is a hit; both give eager's values on new inputs."""
        operation, variants = OPERATIONS[name]
        for i, call in enumerate(variants):
            inputs = new_inputs(call)
            graphs = []
            for again in range(2):
                graph, output = captured(lambda: run(call, inputs))
                graphs.append((graph, output))
                self.assertEqual(counts_of(operation), (i + again, i + 1))
            for _ in range(2):
                for tensor, new in zip(inputs, new_inputs(call)):
                    tensor.copy_(new)
                expected = run(call, inputs)
                for graph, output in graphs:
                    output.zero_()
                    graph.replay()
                    self.assertEqual(output, expected, **EXACT)
            # replays look nothing up
            self.assertEqual(counts_of(operation), (i + 1, i + 1))
        check_sums(self)


instantiate_parametrized_tests(TestGraphExecutables)

if __name__ == "__main__":
    run_tests()
