# Owner(s): ["module: mps"]

"""Cases for graphs whose MPSGraph runs are linked (link=True). The number in a docstring is the promise that the case
guards: 26 stretches of graph runs are replayed as one executable each.
"""

import json
import os
import tempfile
import unittest
import warnings
from unittest import mock

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

# Apple's compiler may fuse what it sees as one.
EXACT = {"atol": 0, "rtol": 0}


def capture(function, *inputs, **options):
    graph = torch.mps.MPSGraph(link=True, **options)
    with torch.mps.graph(graph):
        outputs = function(*inputs)
    return graph, outputs


def steps_of(graph):
    graph.enable_debug_mode()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.json")
        graph.debug_dump(path)
        with open(path) as file:
            return json.load(file)["steps"]


def written(graph):
    """For each graph run that is linked, which of its results a replay writes to memory."""
    return [step["written"] for step in steps_of(graph) if "stretch" in step]


CAN_LINK = torch.backends.mps.is_macos_or_newer(15, 0)


@unittest.skipIf(CAN_LINK, "linking works here")
class TestOlderSystems(TestCase):
    def test_one_warning(self):
        """26: before macOS 15.0 there is one warning, and replays are as without link=True."""
        x = torch.randn(4, device="mps")
        message = (
            "torch.mps graph capture: link=True needs macOS 15.0 or newer. The MPSGraph runs of this graph and of "
            "later ones are replayed one by one."
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                graph, y = capture(lambda x: x.sin().cos(), x)
                x.copy_(torch.randn(4))
                graph.replay()
                self.assertEqual(y, x.sin().cos(), **EXACT)
                self.assertEqual(graph.stats()["linked_stretches"], 0)
        self.assertEqual(sum(message in str(w.message) for w in caught), 1)


@unittest.skipIf(not CAN_LINK, "linking needs macOS 15.0")
class LinkedTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def check(self, function, *shapes, stretches=1, alone=0, rounds=3, **options):
        """Compares replays on new inputs with eager: results, and what became of the inputs. There are so many
        stretches, and so many graph runs that are in none."""
        inputs = [torch.randn(shape, device="mps") for shape in shapes]
        graph, outputs = capture(function, *inputs, **options)
        seen = []
        for _ in range(rounds):
            values = [torch.randn(shape) for shape in shapes]
            for x, value in zip(inputs, values):
                x.copy_(value)
            for output in torch.utils._pytree.tree_leaves(outputs):
                if output.untyped_storage().data_ptr() not in {
                    x.untyped_storage().data_ptr() for x in inputs
                }:
                    output.fill_(93)  # what the replay does not write must not pass
            graph.replay()
            fresh = [value.to("mps") for value in values]
            expected = function(*fresh)
            self.assertEqual(outputs, expected, **EXACT)
            self.assertEqual(inputs, fresh, **EXACT)
            seen.append([o.cpu() for o in torch.utils._pytree.tree_leaves(outputs)])
        self.assertNotEqual(seen[0], seen[1])
        stats = graph.stats()
        self.assertEqual(
            (stats["linked_stretches"], stats["graph_runs"] - stats["linked_runs"]),
            (stretches, alone),
            list(steps_of(graph)),
        )
        return graph


class TestInstantiation(LinkedTestCase):
    def test_with_and_without(self):
        """One capture, linked, not linked, and linked again."""
        x = torch.randn(4, 4, device="mps")
        graph = torch.mps.MPSGraph(keep_graph=True)
        with torch.mps.graph(graph):
            y = x.sin().cos() @ x
        for link, stretches in ((None, 0), (True, 1), (False, 0), (True, 1)):
            graph.instantiate(link)
            self.assertEqual(graph.stats()["linked_stretches"], stretches)
            x.copy_(torch.randn(4, 4))
            y.fill_(93)
            graph.replay()
            self.assertEqual(y, x.sin().cos() @ x, **EXACT)

    def test_later(self):
        """What is dropped between the capture and its instantiation is not written by replays."""
        x = torch.randn(4, 4, device="mps")
        graph = torch.mps.MPSGraph(keep_graph=True, link=True)
        with torch.mps.graph(graph):
            between = x.sin()
            y = between.cos()
        del between
        graph.instantiate()
        self.assertEqual([sum(w) for w in written(graph)], [0, 1])
        x.copy_(torch.randn(4, 4))
        y.fill_(93)
        graph.replay()
        self.assertEqual(y, x.sin().cos(), **EXACT)


class TestLinked(LinkedTestCase):
    def test_chain(self):
        """26: runs that follow each other are one executable."""
        weight = torch.randn(8, 8, device="mps")

        def function(x):
            for _ in range(4):
                x = (x @ weight).softmax(-1) + x
            return x

        graph = self.check(function, (4, 8))
        stats = graph.stats()
        self.assertEqual(stats["linked_runs"], 12)
        self.assertGreater(stats["link_microseconds"], 0)
        # of all results only the last one is seen afterwards
        self.assertEqual(sum(map(sum, written(graph))), 1)
        self.assertEqual(written(graph)[-1], [1])

    def test_off_by_default(self):
        """26: without link=True each run is its own."""
        x = torch.randn(4, device="mps")
        for graph in (torch.mps.MPSGraph(), torch.mps.MPSGraph(link=True)):
            with torch.mps.graph(graph, link=None if not graph._link else False):
                x.relu().atan()
            self.assertEqual(graph.stats()["linked_stretches"], 0)
            self.assertEqual(graph.stats()["link_microseconds"], 0)
            self.assertFalse(written(graph))
        with torch.mps.graph_capture() as graph:
            x.relu().atan()
        self.assertEqual(graph.stats()["linked_runs"], 0)

    def test_ways_to_ask(self):
        """26: of the graph, of a capture, of the module's current graph."""
        x = torch.randn(4, device="mps")
        graphs = [torch.mps.MPSGraph(link=True), torch.mps.MPSGraph()]
        with torch.mps.graph(graphs[0]):
            y = x.relu().atan()
        with torch.mps.graph(graphs[1], link=True):
            z = x.relu().atan()
        with torch.mps.graph_capture(link=True) as current:
            w = x.relu().atan()
        x.copy_(torch.randn(4))
        torch.mps.graph_replay()
        for graph in graphs:
            graph.replay()
        for graph, result in zip((*graphs, current), (y, z, w)):
            self.assertEqual(graph.stats()["linked_runs"], 2)
            self.assertEqual(result, x.relu().atan(), **EXACT)

    def test_nothing_that_anybody_sees(self):
        """26: runs whose results are not seen are replayed as they are, or left out of their stretch."""
        x = torch.randn(4, device="mps")
        graph, _ = capture(lambda x: x.relu().atan().numel(), x)
        graph.replay()
        self.assertEqual(graph.stats()["linked_runs"], 0)

        def function(x):
            x.relu().atan()
            return x.sin().cos()

        graph = self.check(function, (4,))
        self.assertEqual(written(graph), [[0], [0], [0], [1]])

    def test_bad_limit(self):
        """26: a limit is a positive number."""
        with self.assertRaisesRegex(
            ValueError, "link_limit must be at least 1, but is 0"
        ):
            torch.mps.MPSGraph(link=True, link_limit=0)

    @parametrize("limit,stretches,alone", [(1, 0, 8), (2, 4, 0), (3, 3, 0), (7, 1, 1)])
    def test_limit(self, limit, stretches, alone):
        """26: no executable has more runs than link_limit says."""

        def function(x):
            values = [x]  # all live, so that no memory is used again
            for _ in range(8):
                values.append(values[-1].sin())
            return values[-1]

        self.check(function, (5,), stretches=stretches, alone=alone, link_limit=limit)

    def test_several_results(self):
        """26: results of one run go to different ones."""

        def function(x):
            values, indices = x.sort(-1)
            return values.atan() + values.cos(), indices, values.sum(-1)

        self.check(function, (4, 6))

    def test_captures_share(self):
        """23: the linked executable comes from the cache the second time."""
        torch.mps.executable_cache_clear()
        x = torch.randn(4, 4, device="mps")
        weight = torch.randn(4, 4, device="mps")

        def function(x):
            return (x @ weight).softmax(-1).atan()

        graphs = [capture(function, x)]
        before = torch.mps.executable_cache_stats()
        graphs.append(capture(function, x))
        after = torch.mps.executable_cache_stats()
        self.assertEqual(after["misses"], before["misses"])
        self.assertGreater(after["hits"], before["hits"])
        torch.mps.executable_cache_clear()
        x.copy_(torch.randn(4, 4))
        for graph, y in graphs:
            graph.replay()
            self.assertEqual(y, function(x), **EXACT)
        # other links between the same parts are another executable
        graph, (y, z) = capture(lambda x: ((x @ weight).softmax(-1), x.atan()), x)
        x.copy_(torch.randn(4, 4))
        graph.replay()
        self.assertEqual(y, (x @ weight).softmax(-1), **EXACT)
        self.assertEqual(z, x.atan(), **EXACT)

    def test_other_views_are_another_executable(self):
        """23: the same parts, and another piece of a result between them."""
        x = torch.randn(6, 4, device="mps")
        captures = [
            (begin, *capture(lambda x: x.sin()[begin : begin + 2].atan(), x))
            for begin in (0, 2, 4)
        ]
        for begin, graph, y in captures:
            x.copy_(torch.randn(6, 4))
            graph.replay()
            self.assertEqual(y, x.sin()[begin : begin + 2].atan(), **EXACT)
            self.assertEqual(graph.stats()["linked_runs"], 2)

    def test_cache_names_them(self):
        """23: entries of the cache tell linked executables from others."""
        torch.mps.executable_cache_clear()
        capture(lambda x: x.sin().cos(), torch.randn(3, 5, device="mps"))
        entries = torch._C._mps_executable_cache_entries()
        self.assertEqual(sum("linked" in str(entry) for entry in entries), 1, entries)


class TestMemory(LinkedTestCase):
    def test_input_overwritten_after_it_was_read(self):
        """26: a stretch ends where a result would overwrite what another run still reads."""

        def function(x):
            y = x.sin() * 2
            x.add_(1)
            return y, x.cos()

        self.check(function, (6,), stretches=2)

    def test_input_overwritten_by_its_reader(self):
        """26: a run may write in the place of what it alone reads."""

        def function(x):
            x.mul_(2)
            return x.sin().atan()

        self.check(function, (6,))

    def test_overwritten_several_times(self):
        """26: what is left is what the last one wrote."""

        def function(x):
            y = torch.empty_like(x)
            torch.mul(x, 2, out=y)
            z = y.sin()
            y.add_(z)
            y.atan_()
            return y, z

        graph = self.check(function, (6,))
        self.assertEqual(written(graph), [[0], [1], [0], [1]])

    def test_read_and_then_overwritten(self):
        """26: a result that a later step reads is written, though one after that overwrites it."""

        def function(x):
            y = torch.empty_like(x)
            torch.mul(x, 2, out=y)
            z = x.cos()
            w = y.sin()
            torch.mul(x, 3, out=y)
            return y, z, w

        graph = self.check(function, (6,), alone=2, link_limit=2)
        self.assertEqual(written(graph), [[1], [1]])

    def test_overwritten_by_what_follows_its_reader(self):
        """26: a stretch ends before that, too: a compiler that makes both one kernel would have to know."""

        def function(x):
            x.mul_(2)
            y = x.sin()
            x.add_(y)
            return x.cos()

        self.check(function, (6,), stretches=2)

    def test_temporaries_take_turns(self):
        """26: memory that is used again in a stretch holds the value of its turn."""

        def function(x, y):
            for i in range(6):
                a = x * (i + 1)
                b = a.sin()
                del a
                c = y.atan() + b
                del b
                x = c.cos()
                del c
            return x

        self.check(function, (32,), (32,))

    def test_buffers_of_a_module(self):
        """26: what lived before the capture is updated by each replay."""
        norm = nn.BatchNorm1d(5).to("mps").train()
        reference = nn.BatchNorm1d(5).to("mps").train()
        x = torch.randn(7, 5, device="mps")
        graph, y = capture(lambda x: norm(x).relu(), x)
        reference(x)
        for _ in range(3):
            x.copy_(torch.randn(7, 5))
            graph.replay()
            self.assertEqual(y, reference(x).relu(), **EXACT)
            self.assertEqual(norm.state_dict(), reference.state_dict(), **EXACT)
        self.assertGreater(graph.stats()["linked_runs"], 1)

    def test_results_that_live(self):
        """26: each result that a tensor holds is written."""

        def function(x):
            a = x.sin()
            b = a.cos()
            c = b.atan()
            return a, c

        graph = self.check(function, (6,))
        self.assertEqual(written(graph), [[1], [0], [1]])

    def test_view_that_lives(self):
        """26: a result is written if a view of it is all that is left."""

        def function(x):
            a = x.sin()
            b = a.cos()
            return a[2:4], b.atan()

        graph = self.check(function, (6,))
        self.assertEqual(written(graph), [[1], [0], [1]])

    def test_result_for_a_kernel(self):
        """26: what a kernel reads later is written, and its results are read from memory."""

        def function(x):
            a = x.sin()
            b = a.clamp(-0.9, 0.9)
            c = torch.erfinv(b)
            d = c.cos()
            return d.atan()

        graph = self.check(function, (6,), stretches=2)
        self.assertEqual(written(graph), [[0], [1], [0], [1]])

    def test_memory_of_a_kernels_result(self):
        """26: what a kernel wrote is read before the memory is used again."""

        def function(x):
            a = torch.erfinv(x)
            b = a.cos()
            del a
            # takes the place of the kernel's result, which the cosine reads
            c = b.atan()
            return c, c.sin()

        self.check(function, (6,), alone=1)

    def test_result_for_a_copy(self):
        """26: so is what is copied."""
        kept = torch.zeros(6, device="mps")

        def function(x):
            a = x.sin().cos()
            kept.copy_(a)
            return a.atan().sqrt()

        graph = self.check(function, (6,), stretches=2)
        graph.replay()
        self.assertEqual(kept, kept.clone().clamp(-1, 1), **EXACT)

    def test_result_for_another_stretch(self):
        """26: and what a later stretch reads."""

        def function(x):
            a = x.sin()
            b = a.cos()
            c = b.atan()
            return c.sqrt()

        graph = self.check(function, (6,), stretches=2, link_limit=2)
        self.assertEqual(written(graph), [[0], [1], [0], [1]])

    def test_result_for_a_kernel_object(self):
        """26: what a kernel object reads is not known, so all before it is written."""

        def function(x):
            a = x @ x.mT + 4 * torch.eye(3, device="mps")
            return torch.linalg.lu_factor(a)[0].atan().cos()

        inputs = [torch.randn(3, 3, device="mps")]
        graph, y = capture(function, *inputs)
        for _ in range(3):
            inputs[0].copy_(torch.randn(3, 3))
            graph.replay()
            self.assertEqual(y, function(*inputs), **EXACT)
        self.assertGreater(graph.stats()["kernel_objects"], 0)

    def test_part_of_a_tensor_written(self):
        """26: a stretch ends where a run reads what several have written."""

        def function(x):
            y = torch.zeros(4, 6, device="mps")
            y[1:3].copy_(x.sin())
            y[:, 2:4].mul_(3)
            return y.atan(), y

        graph, y = capture(function, torch.randn(2, 6, device="mps"))
        self.check_again(function, (2, 6))

    def check_again(self, function, *shapes):
        inputs = [torch.randn(shape, device="mps") for shape in shapes]
        graph, outputs = capture(function, *inputs)
        for _ in range(3):
            for x in inputs:
                x.copy_(torch.randn(x.shape))
            for output in torch.utils._pytree.tree_leaves(outputs):
                output.fill_(93)
            graph.replay()
            self.assertEqual(outputs, function(*inputs), **EXACT)
        return graph

    def test_key_value_cache(self):
        """26: rows of a cache from before the capture are written, and the whole cache is read."""
        cache = torch.zeros(4, 3, device="mps")
        at = torch.zeros(1, dtype=torch.long, device="mps")

        def function(x, cache, at):
            cache.scatter_(0, at.expand(1, 3), x.sin().cos())
            at += 1
            return cache.sum(0).atan()

        x = torch.randn(1, 3, device="mps")
        graph = torch.mps.MPSGraph(link=True)
        with torch.mps.graph(graph):
            y = function(x, cache, at)
        cache.zero_()
        at.zero_()
        expected_cache, expected_at = cache.clone(), at.clone()
        for _ in range(4):
            x.copy_(torch.randn(1, 3))
            graph.replay()
            self.assertEqual(y, function(x, expected_cache, expected_at), **EXACT)
        self.assertEqual(cache, expected_cache, **EXACT)

    def test_keep_results(self):
        """26: with PYTORCH_MPS_LINK_KEEP_RESULTS=1 each result is written."""

        def function(x):
            return x.sin().cos().atan()

        with mock.patch.dict(os.environ, PYTORCH_MPS_LINK_KEEP_RESULTS="1"):
            graph, _ = capture(function, torch.randn(6, device="mps"))
        self.assertTrue(all(all(w) for w in written(graph)))

    def test_graphs_that_share_a_pool(self):
        """16: replayed in the order of capture, each finds what it needs."""
        x = torch.randn(16, device="mps")
        first, second = (torch.mps.MPSGraph(link=True) for _ in range(2))
        with torch.mps.graph(first):
            y = x.sin().cos()
            z = y.atan()
        with torch.mps.graph(second, pool=first.pool()):
            a = (y * 2).sin() + z
            del y
            b = a.cos()
        for _ in range(3):
            x.copy_(torch.randn(16))
            first.replay()
            second.replay()
            y = x.sin().cos()
            expected = (y * 2).sin() + y.atan()
            self.assertEqual(a, expected, **EXACT)
            self.assertEqual(b, expected.cos(), **EXACT)


VIEWS = {
    "transposed": lambda a: a.mT.softmax(-1),
    "permuted": lambda a: a.view(2, 3, 4).permute(2, 0, 1).atan(),
    "sliced": lambda a: a[1:4, 2:].atan(),
    "row": lambda a: a[3].atan(),
    "column": lambda a: a[:, 1].atan(),
    "every second": lambda a: a[::2].atan(),
    "every second column": lambda a: a[:, 1::2].atan(),
    "reshaped": lambda a: a.view(3, 8).softmax(-1),
    "flattened": lambda a: a.flatten().softmax(-1),
    "broadcast": lambda a: (a[:, None].expand(6, 3, 4) * 2).atan(),
    "broadcast row": lambda a: a[2].expand(5, 4).softmax(0),
    "heads": lambda a: a.view(6, 2, 2).transpose(0, 1)[..., 1].softmax(-1),
    "one number": lambda a: a[4, 2].atan(),
    "last ones": lambda a: a[5, 3:].atan(),
    "diagonal": lambda a: a[:4].diagonal().atan(),
}


class TestViews(LinkedTestCase):
    @parametrize("name", list(VIEWS))
    def test_view_of_a_result(self, name):
        """26: a view of an earlier result is expressed in the graph, or ends the stretch."""
        function = VIEWS[name]
        x = torch.randn(6, 4, device="mps")
        graph, y = capture(lambda x: function(x.sin().cos()), x)
        for _ in range(3):
            x.copy_(torch.randn(6, 4))
            y.fill_(93)
            graph.replay()
            self.assertEqual(y, function(x.sin().cos()), **EXACT)
        stats = graph.stats()
        # a diagonal is no part of a tensor in the sense of a slice
        stretches = 1 if name != "diagonal" else 2
        self.assertLessEqual(stats["linked_stretches"], stretches)
        if name != "diagonal":
            self.assertEqual(stats["linked_runs"], stats["graph_runs"])

    def test_without_views(self):
        """26: with PYTORCH_MPS_LINK_VIEWS=0 a view ends the stretch."""

        def function(x):
            y = x.sin()
            z = y.cos()
            w = z.mT.softmax(-1)
            return w.atan()

        with mock.patch.dict(os.environ, PYTORCH_MPS_LINK_VIEWS="0"):
            self.check(function, (6, 4), stretches=2)
        self.check(function, (6, 4))

    def test_results_in_another_order_of_memory(self):
        """26: a result whose memory is not in the order of its dimensions."""

        def function(x):
            y = F.conv2d(x.sin(), weight).relu()
            return y.mean((2, 3)), y.flatten(1).atan()

        weight = torch.randn(5, 3, 3, 3, device="mps")
        self.check(function, (2, 3, 6, 6))
        weight = weight.to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 6, 6, device="mps").to(memory_format=torch.channels_last)
        graph, outputs = capture(function, x)
        for _ in range(3):
            x.copy_(torch.randn(2, 3, 6, 6))
            graph.replay()
            self.assertEqual(outputs, function(x), **EXACT)

    def test_result_of_another_dtype(self):
        """26: memory that is read as another dtype than it was written with."""

        def function(x):
            y = x.sin()
            z = y.cos()
            w = z.view(torch.int32).abs()
            return w.float().sin()

        graph = self.check(function, (8,), stretches=2)
        self.assertEqual(written(graph)[:2], [[0], [1]])

    def test_attention(self):
        """26: heads are cut out of one projection."""
        layer = nn.MultiheadAttention(8, 2, batch_first=True).to("mps").eval()

        @torch.no_grad()
        def function(x):
            return layer(x, x, x, need_weights=False)[0].softmax(-1)

        graph, y = capture(function, torch.randn(2, 5, 8, device="mps"))
        self.check_views(function)

    def check_views(self, function):
        x = torch.randn(2, 5, 8, device="mps")
        graph, y = capture(function, x)
        for _ in range(3):
            x.copy_(torch.randn(2, 5, 8))
            y.fill_(93)
            graph.replay()
            self.assertEqual(y, function(x), **EXACT)

    def test_heads_of_a_projection(self):
        """26: the same without the copies between."""
        weight = torch.randn(24, 8, device="mps")

        def function(x):
            q, k, v = F.linear(x, weight).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
            a = (q * 2) @ (k + 1).mT
            return (a.softmax(-1) @ v.sin()).transpose(1, 2).flatten(2).cos()

        self.check_views(function)


class TestHost(LinkedTestCase):
    def test_random_numbers(self):
        """19: a draw in a stretch draws new numbers in each replay, and does not end the stretch."""
        x = torch.randn(64, device="mps")

        def function(x):
            return F.dropout(x.sin(), 0.5).cos() + torch.rand_like(x).atan()

        graph, y = capture(function, x)
        for _ in range(3):
            state = torch.mps.get_rng_state()
            graph.replay()
            after = torch.mps.get_rng_state()
            torch.mps.set_rng_state(state)
            self.assertEqual(y, function(x), **EXACT)
            self.assertEqual(torch.mps.get_rng_state(), after, **EXACT)
        self.assertEqual(graph.stats()["linked_stretches"], 1)
        self.assertEqual(graph.stats()["host_refreshes"], 2)

    def test_host_source(self):
        """18: a copy from the host ends a stretch."""
        host = torch.randn(6)

        def function(x):
            a = x.sin().cos()
            return (host.to("mps") + a).atan().sqrt()

        x = torch.randn(6, device="mps")
        graph, y = capture(function, x)
        for _ in range(3):
            x.copy_(torch.randn(6))
            host.copy_(torch.randn(6))
            graph.replay()
            self.assertEqual(y, function(x), **EXACT)

    def test_replay_in_capture(self):
        """7: the runs of a part are linked again, with those around them."""
        x = torch.randn(6, device="mps")
        inner, y = capture(lambda x: x.sin().cos(), x)
        for link, stretches in ((True, 1), (False, 0)):
            outer = torch.mps.MPSGraph()
            with torch.mps.graph(outer, link=link):
                a = x * 2
                inner.replay()
                z = (y + a).atan()
            for _ in range(3):
                x.copy_(torch.randn(6))
                y.zero_()
                outer.replay()
                self.assertEqual(z, (x.sin().cos() + x * 2).atan(), **EXACT)
                self.assertEqual(y, x.sin().cos(), **EXACT)
            self.assertEqual(outer.stats()["linked_stretches"], stretches)
            self.assertEqual(outer.stats()["graph_runs"], 5)

    def test_graphed_callables(self):
        """26: forward and backward pass are linked."""
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to("mps")
        reference = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to("mps")
        reference.load_state_dict(model.state_dict())
        graphed = torch.mps.make_graphed_callables(
            model, (torch.randn(3, 4, device="mps"),), link=True
        )
        for _ in range(3):
            x = torch.randn(3, 4, device="mps")
            for one in (graphed, reference):
                one.zero_grad()
                one(x).square().sum().backward()
            self.assertEqual(graphed(x), reference(x), **EXACT)
            self.assertEqual(
                [p.grad for p in graphed.parameters()],
                [p.grad for p in reference.parameters()],
                **EXACT,
            )

    def test_replays_in_flight(self):
        """17: replays in flight when the graph goes keep what they need."""
        x = torch.randn(1000, device="mps")
        graph, y = capture(lambda x: x.sin().cos().atan(), x)
        expected = x.sin().cos().atan()
        for _ in range(20):
            graph.replay()
        graph.reset()
        del graph
        torch.mps.executable_cache_clear()
        self.assertEqual(y, expected, **EXACT)


instantiate_parametrized_tests(TestLinked)
instantiate_parametrized_tests(TestViews)

if __name__ == "__main__":
    run_tests()
