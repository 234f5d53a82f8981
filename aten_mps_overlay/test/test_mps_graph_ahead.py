# Owner(s): ["module: mps"]

"""Cases for replays of torch.mps graphs that are encoded before they are asked for."""

import gc
import os
import threading
import time
import unittest
import unittest.mock

from test_mps_graph import EXACT, GraphTestCase, TIMEOUT
from test_mps_graph_processes import run_python

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

# How many ready replays all graphs keep.
MOST = 16

PREPARE = """
import os, torch
x = torch.ones(64, 64, device="mps")
graphs = []
for _ in range(4):
    graph = torch.mps.MPSGraph(encode_ahead=4)
    with torch.mps.graph(graph):
        y = x
        for _ in range(20):
            y = torch.tanh(y @ x)
    graphs.append(graph)
    graph.replay()
"""


def captured_ahead(block, count=1, **options):
    graph = torch.mps.MPSGraph(encode_ahead=count, **options)
    with torch.mps.graph(graph):
        result = block()
    return graph, result


def wait_until_ready(graph, count=1):
    end = time.monotonic() + TIMEOUT
    while graph.stats()["ready_replays"] < count:
        if time.monotonic() > end:
            raise AssertionError(f"not ready: {graph.stats()}")
        time.sleep(0.001)


class TestAhead(GraphTestCase):
    @parametrize("count", [0, 1, 3])
    def test_values(self, count):
        """Kernels, graph runs, copies, fills, host data and random numbers, all new at each replay."""
        host = torch.zeros(64)
        x, weight = (torch.randn(64, 64, device="mps") for _ in range(2))
        total = torch.zeros(64, 64, device="mps")

        def block():
            y = torch.fmax(x @ weight, x) + host.to("mps")
            total[:32].fill_(1)
            total[32:].copy_(y[:32])
            total.add_(torch.rand(64, 64, device="mps"))
            return torch.bernoulli(y.sigmoid()), y.t().contiguous()

        graph, outputs = captured_ahead(block, count)
        for i in range(6):
            x.normal_()
            host.normal_()
            torch.manual_seed(i)
            expected = [*(out.clone() for out in block()), total.clone()]
            for out in (*outputs, total):
                out.zero_()
            torch.manual_seed(i)
            graph.replay()
            self.assertEqual([*outputs, total], expected, **EXACT)
            if i % 2 and count:
                wait_until_ready(graph, count)
        self.assertEqual(graph.stats()["replays"], 6)
        self.assertEqual(
            graph.stats()["why_not_ahead"], "" if count else "encode_ahead is 0"
        )

    def test_host_data_is_that_of_the_replay(self):
        host = torch.zeros(1024)
        graph, out = captured_ahead(
            lambda: host.to("mps") + torch.rand(1024, device="mps")
        )
        graph.replay()
        wait_until_ready(graph)
        self.assertGreaterEqual(graph.stats()["ready_bytes"], host.nbytes)
        host.fill_(7)
        torch.manual_seed(3)
        graph.replay()
        torch.manual_seed(3)
        self.assertEqual(
            out,
            torch.full((1024,), 7.0, device="mps") + torch.rand(1024, device="mps"),
            **EXACT,
        )

    def test_order_with_eager_work(self):
        x = torch.zeros(256, device="mps")
        graph, out = captured_ahead(lambda: x * 2)
        graph.replay()
        for i in range(20):
            x.fill_(i)  # not committed when the replay comes
            graph.replay()
            copy = out + 0
            x.fill_(-1)
            out.fill_(-2)
            self.assertEqual(copy, torch.full((256,), 2.0 * i, device="mps"))
            event = torch.mps.Event()
            event.record()
            event.wait()

    def test_synchronize_waits(self):
        x = torch.ones(512, 512, device="mps")
        graph, out = captured_ahead(
            lambda: [x.copy_(torch.tanh(x @ x)) for _ in range(10)][-1]
        )
        for _ in range(3):
            graph.replay()
            wait_until_ready(graph)
            torch.mps.synchronize()
            before = out.clone()
            torch.mps.synchronize()
            self.assertEqual(out, before, **EXACT)

    def test_error_drops_what_is_ready(self):
        x = torch.ones(8, device="mps")
        kept = torch.zeros(8, device="mps")
        graph, _ = captured_ahead(lambda: kept.add_(x))
        kept.zero_()
        graph.replay()
        wait_until_ready(graph)
        old = x.data
        x.data = torch.ones(8, device="mps")
        with self.assertRaisesRegex(RuntimeError, "storage"):
            graph.replay()
        self.assertEqual(graph.stats()["ready_replays"], 0)
        self.assertEqual(kept.cpu(), torch.ones(8))
        x.data = old
        graph.replay()
        self.assertEqual(kept.cpu(), torch.full((8,), 2.0))

    def test_replay_in_a_capture_drops_what_is_ready(self):
        total = torch.zeros(8, device="mps")
        inner, _ = captured_ahead(lambda: total.add_(1))
        inner.replay()
        wait_until_ready(inner)
        outer = torch.mps.MPSGraph(encode_ahead=1)
        total.zero_()
        with torch.mps.graph(outer):
            inner.replay()
            total.mul_(2)
        self.assertEqual(inner.stats()["ready_replays"], 0)
        self.assertEqual(total.cpu(), torch.full((8,), 2.0))
        for _ in range(3):
            outer.replay()
            inner.replay()
        self.assertEqual(total.cpu(), torch.full((8,), 37.0))

    @parametrize("end", ["reset", "recapture", "del", "del at once", "instantiate"])
    def test_memory_is_given_back(self, end):
        x = torch.ones(1 << 18, device="mps")
        host = torch.ones(1 << 18)
        level = self.stable_memory_level()
        graph, out = captured_ahead(
            lambda: torch.tanh(x + host.to("mps")) * 3, count=2, keep_graph=True
        )
        graph.replay()
        if end != "del at once":
            wait_until_ready(graph, 2)
        if end == "instantiate":
            graph.instantiate()
            self.assertEqual(graph.stats()["ready_replays"], 0)
            graph.replay()
        expected = torch.tanh(x + host.to("mps")) * 3
        self.assertEqual(out, expected, **EXACT)
        del out, expected
        if end == "recapture":
            graph.reset()
            with torch.mps.graph(graph):
                out = x + 1
            graph.replay()
            self.assertEqual(out, x + 1, **EXACT)
            del out
        if end != "del at once":
            graph.reset()
            self.assertEqual(graph.stats()["ready_replays"], 0)
        del graph
        self.assert_level(level)

    def test_many_graphs(self):
        """A command queue has 64 command buffers; the graph that was replayed least recently loses its."""
        x = torch.zeros(8, device="mps")
        graphs = [captured_ahead(lambda: x + i, count=4) for i in range(40)]
        for i in range(3):
            for number, (graph, out) in enumerate(graphs):
                x.fill_(10 * i)
                graph.replay()
                self.assertEqual(out.cpu(), torch.full((8,), 10.0 * i + number))
                # One graph encodes at a time in the last round, so that the order is known.
                if i == 2:
                    wait_until_ready(graph, 4)
            wait_until_ready(graphs[-1][0], 4)
        ready = [graph.stats()["ready_replays"] for graph, _ in graphs]
        self.assertEqual(sum(ready), MOST)
        self.assertEqual(ready[:-5], [0] * 35)
        graphs.clear()

    def test_threads(self):
        total = torch.zeros(8, device="mps")
        graph, _ = captured_ahead(lambda: total.add_(1), count=2)
        total.zero_()
        others = [
            captured_ahead(lambda: torch.full((8,), 2.0 * i, device="mps"))
            for i in range(4)
        ]

        def replay(number):
            for _ in range(50):
                graph.replay()
                others[number][0].replay()

        threads = [threading.Thread(target=replay, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(total.cpu(), torch.full((8,), 200.0))
        for i, (_, out) in enumerate(others):
            self.assertEqual(out.cpu(), torch.full((8,), 2.0 * i))

    def test_executables_of_two_graphs(self):
        """They are the same; one graph is encoded on another thread while this one encodes the other."""
        x = torch.full((8, 8), 0.125, device="mps")

        def block():
            y = x
            for _ in range(50):
                y = torch.tanh(y @ x)
            return y

        ahead, expected = captured_ahead(block, count=4)
        direct, out = captured_ahead(block, count=0)
        for _ in range(50):
            ahead.replay()
            for _ in range(3):
                direct.replay()
        wait_until_ready(ahead, 4)
        self.assertEqual(out, expected, **EXACT)

    def test_graph_that_is_dropped_while_it_is_encoded(self):
        x = torch.ones(64, 64, device="mps")
        for _ in range(20):
            graph, out = captured_ahead(lambda: torch.tanh(x @ x) @ x, count=4)
            graph.replay()
            del graph
            self.assertEqual(out, torch.tanh(x @ x) @ x, **EXACT)
        gc.collect()

    def test_kernel_object_is_named(self):
        a = torch.eye(4, device="mps") * 2
        b = torch.ones(4, 2, device="mps")
        graph, out = captured_ahead(
            lambda: torch.linalg.solve_triangular(a, b, upper=True)
        )
        for i in range(1, 4):
            b.fill_(i)
            out.zero_()
            graph.replay()
            self.assertEqual(out, b / 2)
        stats = graph.stats()
        self.assertEqual(stats["ready_replays"], 0)
        self.assertRegex(
            stats["why_not_ahead"], "aten::.*triangular.* uses an MPS kernel object"
        )

    def test_status_is_named(self):
        weights = torch.eye(4, device="mps")
        graph, out = captured_ahead(lambda: torch.multinomial(weights, 1))
        for i in range(4):
            weights.zero_()
            weights[:, i] = 1
            graph.replay()
            self.assertEqual(out.cpu(), torch.full((4, 1), i))
        reason = graph.stats()["why_not_ahead"]
        self.assertEqual(reason, "aten::multinomial reads a status after each replay")

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(
            TypeError, "encode_ahead must be an int or None, got str"
        ):
            torch.mps.MPSGraph(encode_ahead="1")
        for count in (-1, 17):
            message = f"encode_ahead must be 0 to 16, but is {count}"
            with self.assertRaisesRegex(ValueError, message):
                torch.mps.MPSGraph(encode_ahead=count)
            with unittest.mock.patch.dict(
                os.environ, PYTORCH_MPS_GRAPH_ENCODE_AHEAD=str(count)
            ), self.assertRaisesRegex(ValueError, message):
                torch.mps.MPSGraph()

    def test_variable_that_is_no_number(self):
        with unittest.mock.patch.dict(
            os.environ, PYTORCH_MPS_GRAPH_ENCODE_AHEAD="yes"
        ), self.assertRaisesRegex(
            ValueError, "PYTORCH_MPS_GRAPH_ENCODE_AHEAD must be 0 to 16, but is 'yes'"
        ):
            torch.mps.MPSGraph()

    def test_exit_while_it_is_encoded(self):
        for _ in range(3):
            self.assertEqual(run_python(PREPARE + "graphs[0].replay()")[::2], (0, ""))

    @unittest.skipIf(not hasattr(os, "fork"), "needs fork()")
    def test_forked_child_drops_graphs(self):
        program = (
            PREPARE
            + """
child = os.fork()
if child == 0:
    graphs.clear()
    del graph
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        )
        self.assertEqual(run_python(program)[:2], (0, "7\n"))


instantiate_parametrized_tests(TestAhead)

if __name__ == "__main__":
    run_tests()
