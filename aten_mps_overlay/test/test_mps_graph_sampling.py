# Owner(s): ["module: mps"]

"""Cases for torch.multinomial in torch.mps graphs: its check of the probabilities is repeated by each replay."""

import unittest

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
INVALID = {
    "negative": ([0.5, -0.5, 1.0], "element < 0"),
    "infinite": ([0.5, float("inf"), 1.0], "either `inf`"),
    "nan": ([0.5, float("nan"), 1.0], "either `inf`"),
    "zero": ([0.0, 0.0, 0.0], "sum of probabilities <= 0"),
}


class TestSampling(TestCase):
    def capture(self, *shape, samples=1, frozen=False):
        self.p = torch.ones(shape, device="mps")
        graph, self.drawn = captured(
            lambda: torch.multinomial(self.p, samples), freeze_host_reads=frozen
        )
        return graph

    @parametrize("frozen", [False, True])
    @parametrize("shape", [(50,), (4, 50)])
    @parametrize("samples", [1, 7])
    def test_draws(self, shape, samples, frozen):
        """What eager draws from the same state, with probabilities of the moment."""
        graph = self.capture(*shape, samples=samples, frozen=frozen)
        seen = []
        for _ in range(4):
            self.p.copy_(torch.rand(shape))
            state = torch.mps.get_rng_state()
            expected = torch.multinomial(self.p, samples)
            left = torch.mps.get_rng_state()
            torch.mps.set_rng_state(state)
            self.drawn.fill_(93)
            graph.replay()
            self.assertEqual(self.drawn, expected, **EXACT)
            self.assertEqual(torch.mps.get_rng_state(), left)
            seen.append(self.drawn.tolist())
        self.assertNotEqual(seen[0], seen[1])

    @parametrize("kind", list(INVALID))
    @parametrize("rows", [None, 2])
    def test_invalid_probabilities(self, kind, rows):
        """An error at the next synchronization, once; the graph may go on."""
        values, message = INVALID[kind]
        graph = self.capture(3) if rows is None else self.capture(rows, 3)
        graph.replay()
        torch.mps.synchronize()
        valid = self.p.clone()
        (self.p if rows is None else self.p[1]).copy_(torch.tensor(values))
        with self.assertRaisesRegex(RuntimeError, message):
            torch.multinomial(self.p, 1)
        graph.replay()
        with self.assertRaisesRegex(RuntimeError, message):
            torch.mps.synchronize()
        torch.mps.synchronize()
        self.p.copy_(valid)
        graph.replay()
        torch.mps.synchronize()

    @parametrize("kind", list(INVALID))
    def test_invalid_probabilities_in_the_capture(self, kind):
        values, message = INVALID[kind]
        p = torch.tensor(values, device="mps")
        graph = torch.mps.MPSGraph()
        with self.assertRaisesRegex(RuntimeError, message):
            with torch.mps.graph(graph):
                torch.multinomial(p, 1)
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            graph.replay()

    def test_invalid_probabilities_in_an_outer_graph(self):
        inner = self.capture(3)
        outer, _ = captured(lambda: inner.replay())
        self.p.fill_(0)
        outer.replay()
        with self.assertRaisesRegex(RuntimeError, "sum of probabilities <= 0"):
            torch.mps.synchronize()

    def test_decoding(self):
        """A step that samples a token and writes it where the next step reads it, in one graph."""
        torch.manual_seed(0)
        weight = torch.randn(16, 32, device="mps")
        embedding = torch.randn(32, 16, device="mps")
        token = torch.zeros(1, dtype=torch.long, device="mps")

        def step():
            logits = embedding[token] @ weight
            token.copy_(torch.multinomial(logits.softmax(-1)[0], 1))

        graph, _ = captured(step)
        state = torch.mps.get_rng_state()
        runs = []
        for run in (step, graph.replay):
            torch.mps.set_rng_state(state)
            token.fill_(3)
            tokens = []
            for _ in range(20):
                run()
                tokens.append(token.item())
            runs.append(tokens)
        self.assertEqual(*runs)
        self.assertGreater(len(set(runs[0])), 3)

    def test_compiled(self):
        """Sampling does not split a compiled function."""

        def sample(logits):
            return torch.multinomial((logits * 2).softmax(-1), 1)

        compiled = torch.compile(sample, backend="mpsgraphs")
        with torch.no_grad():
            for _ in range(3):
                logits = torch.randn(4, 30, device="mps")
                state = torch.mps.get_rng_state()
                expected = sample(logits)
                torch.mps.set_rng_state(state)
                self.assertEqual(compiled(logits), expected, **EXACT)
        report = torch.mps.compile_report()[-1]
        self.assertEqual((report["pieces"], report["splits"]), ([1], []))
        self.assertEqual(report["replays"], 2)


instantiate_parametrized_tests(TestSampling)

if __name__ == "__main__":
    run_tests()
