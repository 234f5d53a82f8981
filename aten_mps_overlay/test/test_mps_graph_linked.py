# Owner(s): ["module: mps"]

"""Cases for graphs whose MPSGraph runs are linked (link=True): stretches of runs are replayed as one executable each."""

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
        graph, outputs = self.check_replays(function, inputs, rounds, **options)
        stats = graph.stats()
        found = stats["linked_stretches"], stats["graph_runs"] - stats["linked_runs"]
        if stretches is not None:
            self.assertEqual(found, (stretches, alone), list(steps_of(graph)))
        return graph

    def check_replays(self, function, inputs, rounds=3, **options):
        graph, outputs = capture(function, *inputs, **options)
        leaves = torch.utils._pytree.tree_leaves(outputs)
        given = {x.untyped_storage().data_ptr() for x in inputs}
        seen = []
        for _ in range(rounds):
            values = [torch.randn(x.shape) for x in inputs]
            for x, value in zip(inputs, values):
                x.copy_(value)
            for output in leaves:
                if output.untyped_storage().data_ptr() not in given:
                    output.fill_(93)  # what the replay does not write must not pass
            graph.replay()
            fresh = [torch.empty_like(x).copy_(v) for x, v in zip(inputs, values)]
            self.assertEqual(outputs, function(*fresh), **EXACT)
            self.assertEqual(inputs, fresh, **EXACT)
            seen.append([output.cpu() for output in leaves])
        self.assertNotEqual(seen[0], seen[1])
        return graph, outputs


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

    def test_memory_in_a_dump(self):
        """What each step reads and writes, and where in the buffer a slice begins."""
        x, y, z = (torch.ones(64, device="mps") for _ in range(3))
        graph = torch.mps.MPSGraph(keep_graph=True)
        with torch.mps.graph(graph):
            torch.sin(x, out=z)
            z[8:].sinh_()
            torch.erfinv(z, out=x)
            y.copy_(x)
        uses = [
            [(use["access"], use["buffer"], use["offset"]) for use in step["buffers"]]
            for step in graph._dump()["steps"]
        ]
        self.assertEqual(
            uses,
            [
                [("read", 0, 0), ("write", 1, 0)],
                [("read", 1, 32), ("write", 1, 32)],
                [("bind", 0, 0), ("bind", 1, 0)],
                [("read", 0, 0), ("write", 2, 0)],
            ],
        )


class TestLinked(LinkedTestCase):
    def test_chain(self):
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
        """Runs whose results are not seen are replayed as they are, or left out of their stretch."""
        x = torch.randn(4, device="mps")
        graph, _ = capture(lambda x: x.relu().atan().numel(), x)
        graph.replay()
        self.assertEqual(graph.stats()["linked_runs"], 0)

        def function(x):
            x.relu().atan()
            return x.sin().cos()

        graph = self.check(function, (4,))
        self.assertEqual(written(graph), [[0], [0], [0], [1]])

    @parametrize("limit,stretches,alone", [(1, 0, 8), (2, 4, 0), (3, 3, 0), (7, 1, 1)])
    def test_limit(self, limit, stretches, alone):
        """No executable has more runs than link_limit says."""

        def function(x):
            values = [x]  # all live, so that no memory is used again
            for _ in range(8):
                values.append(values[-1].sin())
            return values[-1]

        self.check(function, (5,), stretches=stretches, alone=alone, link_limit=limit)

    def test_several_results(self):
        def function(x):
            values, indices = x.sort(-1)
            return values.atan() + values.cos(), indices, values.sum(-1)

        self.check(function, (4, 6))

    def test_captures_share(self):
        """The linked executable comes from the cache the second time."""
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
        """The same parts, and another piece of a result between them."""
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
        """Entries of the cache tell linked executables from others."""
        torch.mps.executable_cache_clear()
        capture(lambda x: x.sin().cos(), torch.randn(3, 5, device="mps"))
        entries = torch._C._mps_executable_cache_entries()
        self.assertEqual(sum("linked" in str(entry) for entry in entries), 1, entries)


def reader_between(x):
    # what another run still reads is overwritten
    y = x.sin() * 2
    x.add_(1)
    return y, x.cos()


def overwritten_by_its_reader(x):
    # a run may write in the place of what it alone reads
    x.mul_(2)
    return x.sin().atan()


def overwritten_several_times(x):
    y = torch.empty_like(x)
    torch.mul(x, 2, out=y)
    z = y.sin()
    y.add_(z)
    y.atan_()
    return y, z


def read_and_then_overwritten(x):
    # a later step reads the result, and one after that overwrites it
    y = torch.empty_like(x)
    torch.mul(x, 2, out=y)
    z = x.cos()
    w = y.sin()
    torch.mul(x, 3, out=y)
    return y, z, w


def overwritten_by_what_follows_its_reader(x):
    # a compiler that makes both one kernel would have to know
    x.mul_(2)
    y = x.sin()
    x.add_(y)
    return x.cos()


def temporaries_take_turns(x, y):
    for i in range(6):
        a = x * (i + 1)
        b = a.sin()
        del a
        c = y.atan() + b
        del b
        x = c.cos()
        del c
    return x


def results_that_live(x):
    a = x.sin()
    return a, a.cos().atan()


def view_that_lives(x):
    a = x.sin()
    return a[2:4], a.cos().atan()


def result_for_a_kernel(x):
    a = x.sin()
    b = a.clamp(-0.9, 0.9)
    c = torch.erfinv(b)
    d = c.cos()
    return d.atan()


def memory_of_a_kernels_result(x):
    a = torch.erfinv(x)
    b = a.cos()
    del a
    # takes the place of the kernel's result, which the cosine reads
    c = b.atan()
    return c, c.sin()


def result_for_a_copy(x):
    a = x.sin().cos()
    kept = torch.empty_like(a)
    kept.copy_(a)
    return kept, a.atan().sqrt()


def part_of_a_tensor_written(x):
    # a stretch ends where a run reads what several have written
    y = torch.zeros(4, 6, device="mps")
    y[1:3].copy_(x.sin())
    y[:, 2:4].mul_(3)
    return y.atan(), y


# By function: the shape of its inputs, what check() is to find, and which results are written to memory.
MEMORY = {
    reader_between: ((6,), {"stretches": 2}, None),
    overwritten_by_its_reader: ((6,), {}, None),
    overwritten_several_times: ((6,), {}, [[0], [1], [0], [1]]),
    read_and_then_overwritten: ((6,), {"alone": 2, "link_limit": 2}, [[1], [1]]),
    overwritten_by_what_follows_its_reader: ((6,), {"stretches": 2}, None),
    temporaries_take_turns: ((32,), {}, None),
    results_that_live: ((6,), {}, [[1], [0], [1]]),
    view_that_lives: ((6,), {}, [[1], [0], [1]]),
    result_for_a_kernel: ((6,), {"stretches": 2}, [[0], [1], [0], [1]]),
    memory_of_a_kernels_result: ((6,), {"alone": 1}, None),
    result_for_a_copy: ((6,), {"stretches": 2}, None),
    part_of_a_tensor_written: ((2, 6), {"stretches": None}, None),
}


class TestMemory(LinkedTestCase):
    @parametrize("function", list(MEMORY), name_fn=lambda f: f.__name__)
    def test_results(self, function):
        """A stretch ends where it has to, and what is read after it, or lives, is written to memory."""
        shape, found, expected = MEMORY[function]
        shapes = [shape] * function.__code__.co_argcount
        graph = self.check(function, *shapes, **found)
        if expected is not None:
            self.assertEqual(written(graph), expected)

    def test_result_for_another_stretch(self):
        def function(x):
            a = x.sin()
            b = a.cos()
            c = b.atan()
            return c.sqrt()

        graph = self.check(function, (6,), stretches=2, link_limit=2)
        self.assertEqual(written(graph), [[0], [1], [0], [1]])

    def test_buffers_of_a_module(self):
        """What lived before the capture is updated by each replay."""
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

    def test_result_for_a_kernel_object(self):
        """What a kernel object reads is not known, so all before it is written."""

        def function(x):
            a = x @ x.mT + 4 * torch.eye(3, device="mps")
            return torch.linalg.lu_factor(a)[0].atan().cos()

        graph, _ = self.check_replays(function, [torch.randn(3, 3, device="mps")])
        self.assertGreater(graph.stats()["kernel_objects"], 0)

    def test_key_value_cache(self):
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
        """With PYTORCH_MPS_LINK_KEEP_RESULTS=1 each result is written."""

        def function(x):
            return x.sin().cos().atan()

        with mock.patch.dict(os.environ, PYTORCH_MPS_LINK_KEEP_RESULTS="1"):
            graph, _ = capture(function, torch.randn(6, device="mps"))
        self.assertTrue(all(all(w) for w in written(graph)))

    def test_graphs_that_share_a_pool(self):
        """Replayed in the order of capture, each finds what it needs."""
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
    "broadcast row": lambda a: a[2].expand(5, 4).softmax(1),
    "heads": lambda a: a.view(6, 2, 2).transpose(0, 1)[..., 1].softmax(-1),
    "one number": lambda a: a[4, 2].atan(),
    "last ones": lambda a: a[5, 3:].atan(),
    "diagonal": lambda a: a[:4].diagonal().atan(),
}


class TestViews(LinkedTestCase):
    @parametrize("name", list(VIEWS))
    def test_view_of_a_result(self, name):
        """A view of an earlier result is expressed in the graph, or ends the stretch."""
        x = torch.randn(6, 4, device="mps")
        graph, _ = self.check_replays(lambda x: VIEWS[name](x.sin().cos()), [x])
        stats = graph.stats()
        # a diagonal is no part of a tensor in the sense of a slice
        stretches = 1 if name != "diagonal" else 2
        self.assertLessEqual(stats["linked_stretches"], stretches)
        if name != "diagonal":
            self.assertEqual(stats["linked_runs"], stats["graph_runs"])

    def test_without_views(self):
        """With PYTORCH_MPS_LINK_VIEWS=0 a view ends the stretch."""

        def function(x):
            y = x.sin()
            z = y.cos()
            w = z.mT.softmax(-1)
            return w.atan()

        with mock.patch.dict(os.environ, PYTORCH_MPS_LINK_VIEWS="0"):
            self.check(function, (6, 4), stretches=2)
        self.check(function, (6, 4))

    def test_results_in_another_order_of_memory(self):
        """A result whose memory is not in the order of its dimensions."""

        def function(x):
            y = F.conv2d(x.sin(), weight).relu()
            return y.mean((2, 3)), y.flatten(1).atan()

        weight = torch.randn(5, 3, 3, 3, device="mps")
        self.check(function, (2, 3, 6, 6))
        weight = weight.to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 6, 6, device="mps").to(memory_format=torch.channels_last)
        self.check_replays(function, [x])

    def test_result_of_another_dtype(self):
        def function(x):
            y = x.sin()
            z = y.cos()
            w = z.view(torch.int32).abs()
            return w.float().sin()

        graph = self.check(function, (8,), stretches=2)
        self.assertEqual(written(graph)[:2], [[0], [1]])

    def test_attention(self):
        layer = nn.MultiheadAttention(8, 2, batch_first=True).to("mps").eval()

        @torch.no_grad()
        def function(x):
            return layer(x, x, x, need_weights=False)[0].softmax(-1)

        self.check_replays(function, [torch.randn(2, 5, 8, device="mps")])

    def test_heads_of_a_projection(self):
        """The same without the copies between."""
        weight = torch.randn(24, 8, device="mps")

        def function(x):
            q, k, v = F.linear(x, weight).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
            a = (q * 2) @ (k + 1).mT
            return (a.softmax(-1) @ v.sin()).transpose(1, 2).flatten(2).cos()

        self.check_replays(function, [torch.randn(2, 5, 8, device="mps")])


class TestHost(LinkedTestCase):
    def test_random_numbers(self):
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
        """The runs of a part are linked again, with those around them."""
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
instantiate_parametrized_tests(TestMemory)
instantiate_parametrized_tests(TestViews)

if __name__ == "__main__":
    run_tests()
