# Owner(s): ["module: mps"]

"""Cases for torch.mps graphs."""

import copy
import gc
import inspect
import json
import os
import re
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.mps._graph_dump import as_html
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


EXACT = {"atol": 0, "rtol": 0}
TIMEOUT = 120


def captured(block, *args, **options):
    """A new graph of what the block does, and what the block returned."""
    graph = torch.mps.MPSGraph()
    with torch.mps.graph(graph, **options):
        result = block(*args)
    return graph, result


class GraphTestCase(TestCase):
    def stable_memory_level(self):
        """Bytes allocated once completion handlers, which may follow the wait for the GPU, have freed theirs."""
        # a thread that encodes ahead may be late to drop the graph of an earlier test
        levels = []
        while len(levels) < 8 or len(set(levels[-8:])) > 1:
            gc.collect()
            # handlers run in order; the wait includes this number's, which is the last
            torch.ones(1, device="mps").add(1.0, alpha=2.0)
            torch.mps.synchronize()
            time.sleep(0.005)
            levels.append(torch.mps.current_allocated_memory())
        return levels[-1]

    def assert_level(self, expected):
        """So much memory is allocated, within a while: completion handlers free some after the wait for the GPU."""
        end = time.monotonic() + 5
        while (
            torch.mps.current_allocated_memory() != expected and time.monotonic() < end
        ):
            gc.collect()
            torch.mps.synchronize()
        self.assertEqual(torch.mps.current_allocated_memory(), expected)

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def tearDown(self):
        self.assertFalse(torch.mps.is_current_stream_capturing())
        super().tearDown()

    def check_replays(self, function, shapes, dtype=torch.float32, rounds=3):
        """Captures function(*inputs), then compares replays on inputs that the capture never saw with eager."""
        inputs = [torch.randn(shape).to("mps", dtype) for shape in shapes]
        graph, outputs = captured(lambda: function(*inputs))
        self.assertEqual(outputs, function(*inputs), **EXACT)
        leaves = torch.utils._pytree.tree_leaves(outputs)
        seen = []
        for _ in range(rounds):
            for x in inputs:
                x.copy_(torch.randn(x.shape))
            for output in leaves:
                output.fill_(93)  # what the replay does not write must not pass
            graph.replay()
            expected = function(*(x.clone() for x in inputs))
            self.assertEqual(outputs, expected, **EXACT)
            seen.append([output.cpu() for output in leaves])
        for other in seen[1:]:
            self.assertNotEqual(seen[0], other)
        return graph

    def assert_refused(self, words, block, catches=True):
        """The block can't be captured, also if it catches the error; the next capture works."""
        with self.assertRaisesRegex(RuntimeError, words), torch.mps.graph_capture():
            block()
        if catches:
            with self.assertRaisesRegex(RuntimeError, words), torch.mps.graph_capture():
                try:
                    block()
                except RuntimeError:
                    pass
        x = torch.ones(4, device="mps")
        graph, y = captured(lambda: x * 3)
        self.check_filled(graph, x, 2, y, 6.0)

    def run_together(self, *functions):
        """Runs each function on a thread, and raises what one of them raised."""
        errors = []
        barrier = threading.Barrier(len(functions))

        def run(function):
            try:
                barrier.wait()
                function()
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=run, args=(f,), daemon=True) for f in functions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        if errors:
            raise errors[0]

    def check_filled(self, graph, x, value, y, expected):
        """A replay with the input filled with one number gives a result filled with another."""
        y.fill_(93)
        x.fill_(value)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full(y.shape, expected))


def twice(x):
    """Doubles a tensor in place, by a kernel that is no operator."""
    torch.mps._compile_shader(
        "kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }"
    ).twice(x)


KERNELS = {
    "unary": lambda x: torch.erfinv(x.clamp(-0.9, 0.9)),
    "binary": lambda x: torch.fmax(x, x * 2),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 1:4]),
    "index": lambda x: x[torch.arange(2, device="mps"), :],
    "index_put": lambda x: x.clone().index_put_((torch.arange(2, device="mps"),), x[2]),
    "bitwise": lambda x: (x * 100).int() & 12,
    "bucketize": lambda x: torch.bucketize(x, torch.arange(-2.0, 3.0, device="mps")),
    "renorm": lambda x: x.renorm(2, 0, 0.5),
}


def pad_backward(x):
    t = x.detach().requires_grad_()
    padded = F.pad(t[None], (-1, 2), mode="replicate")
    return torch.autograd.grad(padded.sin().sum(), t)[0]


def copy_in_parts(x):
    y = torch.empty_like(x)
    y[2:].copy_(x[:2])
    y[:2].copy_(x[2:])
    return y


def fill_and_copy(x):
    y = torch.empty_like(x)
    y.zero_()
    y[0].copy_(x[0])
    return y


GRAPHS = {
    "matmul": lambda x: x @ x.t(),
    "softmax": lambda x: x.softmax(-1),
    "triu": lambda x: x.triu(),
    "sum": lambda x: x.sum(0),
    "scalar": lambda x: x * 2.5 + 1,
    "cat": lambda x: torch.cat([x, -x], 1),
    "cast": lambda x: x.half(),
    "where": lambda x: torch.where(x > 0, x, x.exp()),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "strided": lambda x: x.t()[1:] + 1,
    "expand": lambda x: x[:, :1].expand(4, 4) * x,
    "pad_backward": pad_backward,
    # the size of the result is an input of the MPSGraph
    "interpolate": lambda x: F.interpolate(x[None, None], (7, 5)),
}

BLITS = {
    "copy": (lambda x: torch.empty_like(x).copy_(x), {"copies": 1}),
    "copy_in_parts": (copy_in_parts, {"copies": 2}),
    "fill": (fill_and_copy, {"fills": 1, "copies": 1}),
}
READS = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "copy_": lambda x: torch.empty(8).copy_(x, non_blocking=True),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "condition": lambda x: bool(x[0] > 0),
    "print": lambda x: str(x),
    "mask": lambda x: x[x > 0],
    "equal": lambda x: torch.equal(x, x + 1),
}


class TestRecording(GraphTestCase):
    @parametrize("name", [*KERNELS, *GRAPHS])
    def test_operator(self, name):
        kind = "kernels" if name in KERNELS else "graph_runs"
        graph = self.check_replays({**KERNELS, **GRAPHS}[name], [(4, 4)])
        self.assertGreater(graph.stats()[kind], 0)

    @parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_dtypes(self, dtype):
        shapes = [(4, 4), (4, 4)]
        self.check_replays(lambda x, y: (torch.fmax(x, y) @ y).relu(), shapes, dtype)

    @parametrize("name", list(BLITS))
    def test_blit(self, name):
        function, expected = BLITS[name]
        stats = self.check_replays(function, [(4, 4)]).stats()
        self.assertEqual({kind: stats[kind] for kind in expected}, expected)

    def test_custom_kernel(self):
        library = torch.mps._compile_shader(
            """
            kernel void scale(device float* out, constant float* in, constant float& factor,
                              uint i [[thread_position_in_grid]]) {
              out[i] = in[i] * factor;
            }
            """
        )

        def function(x):
            y = torch.empty_like(x)
            library.scale(y, x, 3.0)
            library.scale(y, y, 2.0)
            return y

        self.assertEqual(self.check_replays(function, [(4, 4)]).stats()["kernels"], 2)

    def test_custom_kernel_with_a_cpu_tensor(self):
        """The kernel gets a copy of the value."""
        library = torch.mps._compile_shader(
            "kernel void fill(device float* out, constant float& value, uint i [[thread_position_in_grid]]) "
            "{ out[i] = value; }"
        )
        y, value = torch.empty(4, device="mps"), torch.tensor(2.0)
        graph, _ = captured(lambda: library.fill(y, value))
        y.zero_()
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), 2.0))
        value.fill_(5)
        with self.assertRaisesRegex(RuntimeError, "holds 5 instead of 2"):
            graph.replay()

    def test_sticky_state(self):
        """A dispatch that relies on what was bound before the last pipeline change."""
        library = torch.mps._compile_shader(
            """
            kernel void add(device float* out, constant float* in, uint i [[thread_position_in_grid]]) { out[i] += in[i]; }
            kernel void twice(device float* out, uint i [[thread_position_in_grid]]) { out[i] *= 2; }
            """
        )

        def function(x):
            y = torch.ones_like(x)
            for _ in range(3):
                library.add(y, x)
                library.twice(y)
            return y

        self.check_replays(function, [(8,)])

    def test_block_runs_normally(self):
        """A wait for the GPU is allowed, too: it reads nothing."""
        x = torch.arange(6.0, device="mps")
        with torch.mps.graph_capture():
            y = x * 2
            torch.mps.synchronize()
            z = y.sum()
        self.assertEqual(y.cpu(), torch.arange(6.0) * 2)
        self.assertEqual(z.item(), 30.0)
        x.add_(1)
        torch.mps.graph_replay()
        self.assertEqual(z.item(), 42.0)

    def test_error_runs_no_code_of_a_subclass(self):
        """It is made while the capture is locked, for which the subclass's operator would wait."""

        class Sized(torch.Tensor):
            __torch_function__ = torch._C._disabled_torch_function_impl

            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                if function.overloadpacket in (
                    torch.ops.aten.size,
                    torch.ops.aten.sym_size,
                ):
                    torch.ones(1, device="mps").add(1)
                    return [4]
                return torch.zeros(4, device="mps")

        def sized():
            return torch.Tensor._make_subclass(
                Sized,
                torch.ones(4, device="mps"),
                dispatch_sizes_strides_policy="sizes",
            )

        x = sized()

        def change():
            torch.ops.aten.mul.Tensor(x, 2.0)
            x.data = sized()
            return torch.ops.aten.mul.Tensor(x, 2.0)

        with self.assertRaisesRegex(RuntimeError, "the block changed the Float tensor"):
            captured(change)

    def test_backward_threads(self):
        """Autograd's backward, whatever thread it runs on."""
        layer = nn.Linear(4, 4).to("mps")
        x = torch.randn(3, 4, device="mps")

        def gradients():
            return torch.autograd.grad(
                layer(x).square().sum(), list(layer.parameters())
            )

        graph, replayed = captured(gradients)
        x.copy_(torch.randn(3, 4))
        graph.replay()
        self.assertEqual(replayed, gradients(), **EXACT)

    def test_other_thread(self):
        """Work submitted by another thread runs, in order, and is not recorded."""
        x = torch.arange(4.0, device="mps")
        results = []
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x + 1
            self.run_together(lambda: results.append(y * 3))
            z = results[0] + 1
        self.assertEqual(z.cpu(), (torch.arange(4.0) + 1) * 3 + 1)
        x.fill_(7)
        results[0].fill_(5)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), 8.0))
        self.assertEqual(results[0].cpu(), torch.full((4,), 5.0))
        self.assertEqual(z.cpu(), torch.full((4,), 6.0))

    def test_executables_are_shared_by_layers(self):
        """Equal graph runs of one capture use one executable."""
        layers = [torch.randn(4, 4, device="mps") for _ in range(8)]

        def function(x):
            for weight in layers:
                x = x @ weight
            return x

        stats = self.check_replays(function, [(4, 4)]).stats()
        self.assertEqual((stats["graph_runs"], stats["executables"]), (8, 1))


class TestValues(GraphTestCase):
    def test_numbers(self):
        x = torch.ones(3, device="mps")
        number, device = 2.0, torch.tensor(5.0, device="mps")
        with torch.mps.graph_capture():
            a, b = x * number, x * device
        number = 20.0
        device.fill_(50.0)
        torch.mps.graph_replay()
        self.assertEqual([t[0].item() for t in (a, b)], [2.0, 50.0])

    def test_scalars_of_the_host_stay(self):
        """Memory for numbers and for lists of indices is not handed out again while the graph lives."""
        x = torch.arange(4.0, device="mps")
        graph, y = captured(lambda: x[[3, 0, 2]].pow(3.0) * 1.5 + 0.25)
        for i in range(200):
            x[[i % 4, 1]].pow(i + 0.5) * (i + 1.5) + (i + 2.5)
        torch.mps.synchronize()
        x.mul_(2)
        graph.replay()
        self.assertEqual(y.tolist(), [324.25, 0.25, 96.25])

    def test_host_source_is_read_again(self):
        """A copy from the host re-reads the host's memory, which the graph keeps alive."""
        host = torch.randn(1024)
        x = torch.zeros(1024, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x.copy_(host) + 1
        host.copy_(torch.randn(1024))
        expected = host + 1
        graph.replay()
        self.assertEqual(y.cpu(), expected)
        keeping = torch.mps.MPSGraph()
        with torch.mps.graph(keeping, check_input_liveness=False):
            y = x.copy_(host) + 1
        del host
        gc.collect()
        torch.full((1024,), 7.0)
        x.zero_()
        keeping.replay()
        self.assertEqual(y.cpu(), expected)
        with self.assertRaisesRegex(RuntimeError, "is gone"):
            graph.replay()

    @parametrize("how", ["dtype", "transposed", "expanded", "gaps", "into_view"])
    def test_converted_host_source_is_converted_again(self, how):
        """What the host did to the tensor on its way is done at each replay."""
        host = torch.zeros(
            6, 8, dtype=torch.float64 if how == "dtype" else torch.float32
        )
        source = {
            "transposed": lambda: host.t(),
            "expanded": lambda: host[0].expand(6, 8),
            "gaps": lambda: host[::2, 1::3],
        }.get(how, lambda: host)
        x = torch.zeros(source().shape, device="mps", dtype=torch.float16)
        destination = x.view(8, 6).t() if how == "into_view" else x
        graph, y = captured(lambda: destination.copy_(source()) + 1)
        for _ in range(2):
            host.copy_(torch.randn(6, 8))
            graph.replay()
            self.assertEqual(y.cpu(), source().half() + 1, **EXACT)

    @parametrize("how", ["conjugate", "conjugate_gaps", "imaginary", "negative_gaps"])
    def test_flagged_host_source(self, how):
        """A conjugate or negative CPU tensor keeps its sign, also when its content is laid out otherwise."""
        host = torch.randn(8, dtype=torch.complex64)
        view = {
            "conjugate": lambda: host.conj(),
            "conjugate_gaps": lambda: host.conj()[::2],
            "imaginary": lambda: host.conj().imag,
            "negative_gaps": lambda: host.conj().imag[::3],
        }[how]
        x = torch.zeros(view().shape, dtype=view().dtype, device="mps")
        graph, y = captured(lambda: x.copy_(view()).clone())
        for _ in range(2):
            host.copy_(torch.randn(8, dtype=torch.complex64))
            graph.replay()
            self.assertEqual(y, torch.zeros_like(x).copy_(view()), **EXACT)

    def test_replay_under_a_dispatch_mode(self):
        """The mode of the caller sees no operator of the replay."""
        seen = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        host = torch.zeros(8, dtype=torch.int32)
        x = torch.zeros(8, device="mps")
        graph, y = captured(lambda: x.copy_(host) + 1)
        host.add_(3)
        with Mode():
            graph.replay()
            self.assertEqual(seen, [])
            host.add_(1)
            self.assertEqual(seen, ["aten.add_.Tensor"])
        self.assertEqual(y.cpu(), torch.full((8,), 4.0))

    def test_replay_under_a_profiler(self):
        host = torch.zeros(8, dtype=torch.int32)
        x = torch.zeros(8, device="mps")
        graph, _ = captured(lambda: x.copy_(host))
        host.add_(3)
        with torch.profiler.profile() as profile:
            graph.replay()
        self.assertNotIn("aten::copy_", [event.key for event in profile.key_averages()])
        self.assertEqual(x.cpu(), torch.full((8,), 3.0))

    @parametrize("how", ["data", "set_"])
    def test_host_source_behind_an_alias(self, how):
        """The graph keeps the memory that it copies from, which the tensor may leave."""
        host, x = torch.randn(4), torch.zeros(4, device="mps")
        graph, y = captured(lambda: x.copy_(host.data) + 1)
        host.copy_(torch.randn(4))
        graph.replay()
        self.assertEqual(y.cpu(), host + 1)
        if how == "data":
            host.data = torch.randn(4)
        else:
            host.set_(torch.randn(4))
        with self.assertRaisesRegex(
            RuntimeError, "has other memory now, or no longer exists"
        ):
            graph.replay()

    def test_host_source_may_change_after_the_call(self):
        """A replay has read the host's memory when it returns, as a copy of eager has."""
        host = torch.zeros(4096)
        x = torch.zeros(4096, device="mps")
        total = torch.zeros(4096, device="mps")
        graph, _ = captured(lambda: total.add_(x.copy_(host)))
        for i in range(1, 21):
            host.fill_(i)
            graph.replay()
        host.fill_(1000.0)
        self.assertEqual(total.cpu(), torch.full((4096,), 210.0))

    def test_host_source_takes_little_memory(self):
        """Replays that run ahead of the GPU wait for it, and little is kept when it is done."""
        host = torch.zeros(1 << 21, dtype=torch.int32)
        x = torch.zeros(1 << 21, device="mps")
        total = torch.zeros(1 << 21, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            x.copy_(host)
            for _ in range(10):
                total.add_(x)
        total.zero_()
        self.stable_memory_level()
        before = torch.mps.driver_allocated_memory()
        most = 0
        for i in range(20):
            host.fill_(i)
            graph.replay()
            most = max(most, torch.mps.driver_allocated_memory() - before)
        # and the buffers of replays that are encoded already
        ahead = int(os.environ.get("PYTORCH_MPS_GRAPH_ENCODE_AHEAD", "0"))
        self.assertLessEqual(most, (5 + ahead) * x.nbytes)
        self.assertEqual(total.cpu(), torch.full((1 << 21,), 1900.0))
        self.stable_memory_level()
        kept = 2 + ahead
        self.assertLessEqual(
            torch.mps.driver_allocated_memory() - before, kept * x.nbytes
        )

    def test_inplace_updates(self):
        total = torch.zeros(4, device="mps")
        x = torch.ones(4, device="mps")
        graph, _ = captured(lambda: total.add_(x))
        for i in range(2, 6):
            x.fill_(i)
            graph.replay()
        self.assertEqual(total.cpu(), torch.full((4,), 15.0))

    @parametrize("how", ["made", "view", "in_place", "outer"])
    def test_replay_changes_versions(self, how):
        """Autograd notices that a replay wrote to what it has saved."""
        x, w = torch.randn(4, 4, device="mps"), torch.randn(4, 4, device="mps")
        w.requires_grad_()
        block = {"in_place": lambda: x.mul_(2), "view": lambda: (x * 2)[1:].t()}
        graph, y = captured(block.get(how, lambda: x * 2))
        if how == "outer":
            graph, _ = captured(graph.replay)
        kept = y.clone()
        for saved in (y, kept):
            x.copy_(torch.randn(4, 4))
            z = (saved * w[: len(saved), : saved.shape[1]]).sum()
            graph.replay()
            if saved is kept:
                z.backward()
            else:
                with self.assertRaisesRegex(
                    RuntimeError, "modified by an inplace operation"
                ):
                    z.backward()
        expected = torch.zeros(4, 4, device="mps")
        expected[: len(kept), : kept.shape[1]] = kept
        self.assertEqual(w.grad, expected)

    def test_replay_leaves_versions_of_inputs(self):
        """What the graph only reads counts no change, nor does an inference tensor that it writes."""
        x, w = torch.randn(4, 4, device="mps"), torch.randn(4, 4, device="mps")
        with torch.inference_mode():
            cache = torch.zeros(4, 4, device="mps")
            graph, _ = captured(lambda: cache.add_(x))
        with torch.mps.graph_capture():
            y = x @ w
        versions = x._version, w._version, y._version
        torch.mps.graph_replay()
        self.assertEqual((x._version, w._version), versions[:2])
        self.assertGreater(y._version, versions[2])
        before = cache.clone()
        graph.replay()
        self.assertEqual(cache, before + x)

    def test_key_value_cache(self):
        cache = torch.zeros(6, 4, device="mps")
        position = torch.zeros(1, dtype=torch.long, device="mps")
        x = torch.randn(1, 4, device="mps")

        def step():
            cache.index_put_((position,), x)
            return (cache @ x.t()).sum()

        graph, out = captured(step)
        expected = torch.zeros(6, 4)
        expected[0] = x.cpu()
        for i in range(1, 6):
            x.copy_(torch.randn(1, 4))
            position.fill_(i)
            graph.replay()
            expected[i] = x.cpu()
            self.assertEqual(cache.cpu(), expected)
            self.assertEqual(out.cpu(), (expected @ x.cpu().t()).sum())

    def test_order_with_eager_work(self):
        """Replays run in order with eager work before and after, without a synchronize between them."""
        x = torch.zeros(1 << 16, device="mps")
        y = torch.zeros_like(x)
        graph, _ = captured(lambda: y.copy_(x * 2))
        results = []
        for i in range(20):
            x.fill_(i)
            graph.replay()
            results.append(y + 1)
            x.fill_(-1)
        for i, result in enumerate(results):
            self.assertEqual(result.cpu(), torch.full((1 << 16,), 2.0 * i + 1))


DRAWS = {
    "rand": lambda x, g: torch.rand(x.shape, generator=g, device="mps"),
    "randn": lambda x, g: torch.randn(
        x.shape, generator=g, device="mps", dtype=torch.half
    ),
    "randint": lambda x, g: torch.randint(-9, 1000, x.shape, generator=g, device="mps"),
    "randperm": lambda x, g: torch.randperm(33, generator=g, device="mps"),
    "normal": lambda x, g: torch.normal(x, x.abs(), generator=g),
    "normal_of_number": lambda x, g: torch.normal(x, 1.0, generator=g),
    "normal_": lambda x, g: torch.empty_like(x).normal_(generator=g),
    "bernoulli": lambda x, g: torch.bernoulli(x.sigmoid(), generator=g),
    "exponential_": lambda x, g: torch.empty_like(x).exponential_(0.5, generator=g),
    "random_": lambda x, g: torch.empty_like(x).random_(5, 99, generator=g),
    "uniform_": lambda x, g: torch.empty_like(x).uniform_(-1, 1, generator=g),
    "multinomial": lambda x, g: torch.multinomial(x.abs() + 0.1, 40, True, generator=g),
}
# these have no argument for a generator
DEFAULT_DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.3, training=True),
    "dropout2d": lambda x: F.dropout2d(x.view(4, 2, 2, 1), 0.5),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "rand_like": lambda x: torch.rand_like(x) + torch.randn_like(x),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], dropout_p=0.4
    ),
}


class TestRandom(GraphTestCase):
    def check_draws(self, draw, get_state, set_state):
        x = torch.randn(4, 4).to("mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            results = [draw(x), draw(x)]
        seen = []
        for _ in range(3):
            x.copy_(torch.randn(4, 4))
            state = get_state()
            graph.replay()
            # eager work between the replays draws too
            between = draw(x).cpu()
            graph.replay()
            left = get_state()
            replayed = [r.cpu() for r in results]
            set_state(state)
            draw(x), draw(x)
            self.assertEqual(draw(x).cpu(), between, **EXACT)
            self.assertEqual([draw(x).cpu(), draw(x).cpu()], replayed, **EXACT)
            self.assertEqual(get_state(), left)
            seen.append(replayed)
        self.assertNotEqual(seen[0], seen[1])

    @parametrize("name", [*DRAWS, *DEFAULT_DRAWS])
    def test_default_generator(self, name):
        """Replays draw what eager draws from the same state, and leave the generator where eager does."""
        draw = DEFAULT_DRAWS.get(name) or (lambda x: DRAWS[name](x, None))
        self.check_draws(draw, torch.mps.get_rng_state, torch.mps.set_rng_state)

    @parametrize("name", list(DRAWS))
    def test_generator_of_the_program(self, name):
        generator = torch.Generator(device="mps")
        generator.manual_seed(7)
        default = torch.mps.get_rng_state()
        self.check_draws(
            lambda x: DRAWS[name](x, generator),
            generator.get_state,
            generator.set_state,
        )
        self.assertEqual(torch.mps.get_rng_state(), default)

    def test_generator_that_the_block_makes_raises(self):
        """Eager makes a new one each time, from the same seed. It may be made and seeded if nothing is drawn from it."""
        for make in (
            lambda: torch.Generator(device="mps").manual_seed(7),
            torch._C._mps_get_default_generator().clone_state,
        ):
            self.assert_refused(
                "a generator that the block made",
                lambda: torch.rand(4, device="mps", generator=make()),
            )
        x = torch.ones(3, device="mps")
        graph, y = captured(lambda: (make(), x * 2)[1])
        y.zero_()
        graph.replay()
        self.assertEqual(y, torch.full_like(y, 2))

    def test_default_generator_alone(self):
        """Code that brings no other one back after an attempt asks for that."""
        generator = torch.Generator(device="mps")
        state = generator.get_state()
        graph = torch.mps.MPSGraph()
        graph._draw_from_default_only()
        with self.assertRaisesRegex(RuntimeError, "other than the default one"):
            with torch.mps.graph(graph):
                torch.rand(3, device="mps")
                torch.rand(3, device="mps", generator=generator)
        self.assertEqual(generator.get_state(), state)

    def test_generator_of_an_earlier_block(self):
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            generator = torch.Generator(device="mps").manual_seed(7)
        self.check_draws(
            lambda x: torch.rand(4, device="mps", generator=generator),
            generator.get_state,
            generator.set_state,
        )

    def test_generator_outlives_its_owner(self):
        generator = torch.Generator(device="mps")
        graph = torch.mps.MPSGraph()
        graph.register_generator_state(generator)  # as programs for CUDA do
        for other in (3, torch.Generator()):
            with self.assertRaisesRegex(TypeError, "a generator of the MPS device"):
                graph.register_generator_state(other)
        twin = torch.Generator(device="mps")
        twin.set_state(generator.get_state())
        with torch.mps.graph(graph):
            y = torch.rand(8, device="mps", generator=generator)
        self.assertEqual(y, torch.rand(8, device="mps", generator=twin))
        del generator
        gc.collect()
        graph.replay()
        self.assertEqual(y, torch.rand(8, device="mps", generator=twin))

    def test_replaced_generator(self):
        """The block would draw from the new one."""
        generator = torch.Generator(device="mps").manual_seed(3)
        graph, y = captured(lambda: torch.rand(8, device="mps", generator=generator))
        twin = torch.Generator(device="mps")
        twin.set_state(generator.get_state())
        graph.replay()
        self.assertEqual(y, torch.rand(8, device="mps", generator=twin))
        generator = torch.Generator(device="mps").manual_seed(8)
        with self.assertRaisesRegex(RuntimeError, "generator .* is gone"):
            graph.replay()

    def test_new_state_in_capture_raises(self):
        state = torch.mps.get_rng_state()
        torch.rand(3, device="mps")
        words = "a generator was seeded or given a state"
        self.assert_refused(words, lambda: torch.mps.manual_seed(3))
        self.assert_refused(words, lambda: torch.mps.set_rng_state(state))

    @parametrize("use_reentrant", [False, True])
    def test_checkpoint(self, use_reentrant):
        """It sets the random state for its second run, which a capture lets pass if nothing was drawn."""
        layer = nn.Linear(4, 4).to("mps")
        x = torch.randn(3, 4, device="mps", requires_grad=True)

        def gradient(p):
            layer.zero_grad()
            y = checkpoint(
                lambda t: F.dropout(layer(t).exp(), p), x, use_reentrant=use_reentrant
            )
            y.sum().backward()
            return layer.weight.grad

        self.assert_refused(
            "a generator was seeded or given a state", lambda: gradient(0.5)
        )
        # a replay would not set the state of before
        state = torch.mps.get_rng_state()
        self.assert_refused(
            "a generator was seeded or given a state",
            lambda: torch.mps.set_rng_state(state),
        )
        graph, result = captured(lambda: gradient(0.0).clone())
        with torch.no_grad():
            x.copy_(torch.randn(3, 4))
        result.zero_()
        graph.replay()
        self.assertEqual(result, gradient(0.0), **EXACT)

    def test_replay_in_capture(self):
        """The outer graph draws for the inner one, as often as it was replayed."""
        inner, outer = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(inner):
            a = torch.rand(8, device="mps")
        with torch.mps.graph(outer):
            inner.replay()
            first = a * 1
            b = torch.rand(8, device="mps")
            inner.replay()
            second = a * 1
        for _ in range(2):
            state = torch.mps.get_rng_state()
            outer.replay()
            left = torch.mps.get_rng_state()
            torch.mps.set_rng_state(state)
            expected = [torch.rand(8, device="mps").cpu() for _ in range(3)]
            self.assertEqual([t.cpu() for t in (first, b, second)], expected, **EXACT)
            self.assertEqual(torch.mps.get_rng_state(), left)

    def test_replays_in_flight(self):
        total = torch.zeros(256, device="mps")
        graph, _ = captured(lambda: total.add_(torch.rand(256, device="mps")))
        total.zero_()
        torch.mps.synchronize()
        state = torch.mps.get_rng_state()
        for _ in range(20):
            graph.replay()
        torch.mps.set_rng_state(state)
        expected = torch.zeros(256, device="mps")
        for _ in range(20):
            expected.add_(torch.rand(256, device="mps"))
        self.assertEqual(total, expected, **EXACT)


def wait_for_event(event):
    event.record()
    event.synchronize()


# How the host waits for the device, of which a tensor is given.
WAITS = {
    "synchronize": lambda x: torch.mps.synchronize(),
    "accelerator": lambda x: torch.accelerator.synchronize(),
    "mps_event": lambda x: wait_for_event(torch.mps.Event()),
    "event": lambda x: wait_for_event(torch.Event("mps")),
    "item": lambda x: x.flatten()[0].item(),
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
}


class TestKernelObjects(GraphTestCase):
    @parametrize("batch", [(), (3,), (2, 2)])
    def test_lu_factor(self, batch):
        factor = lambda x: torch.linalg.lu_factor(x * 2)  # noqa: E731
        graph = self.check_replays(factor, [(*batch, 5, 5)])
        self.assertGreater(graph.stats()["kernel_objects"], 0)

    @parametrize("upper", [False, True])
    @parametrize("left", [False, True])
    def test_solve_triangular(self, upper, left):
        def solve(x, b):
            a = x.tril() + 3 * torch.eye(4, device="mps")
            a = a.mT.contiguous() if upper else a
            return torch.linalg.solve_triangular(a, b, upper=upper, left=left)

        graph = self.check_replays(solve, [(3, 4, 4), (3, 4, 4)])
        self.assertEqual(graph.stats()["kernel_objects"], 3)

    @parametrize("wait", list(WAITS))
    def test_singular_matrix_raises_at_the_next_synchronization(self, wait):
        """Eager raises for it; a replay does when the host waits, and the graph stays usable."""
        x = torch.randn(2, 3, 3, device="mps")
        graph, (lu, _) = captured(lambda: torch.linalg.lu_factor(x))
        x[1].zero_()
        graph.replay()
        graph.replay()
        with self.assertRaisesRegex(
            RuntimeError, r"lu_factor\(\): LU factorization failure .*status -2"
        ):
            WAITS[wait](lu)
        WAITS[wait](lu)
        torch.mps.synchronize()
        x.copy_(torch.randn(2, 3, 3))
        graph.replay()
        torch.mps.synchronize()
        self.assertEqual(lu, torch.linalg.lu_factor(x)[0], **EXACT)

    def test_singular_matrix_in_capture_raises(self):
        words = "LU factorization failure at the 1 sample"
        zeros = torch.zeros(3, 3, device="mps")
        self.assert_refused(words, lambda: torch.linalg.lu_factor(zeros), False)


HOST_WORK = {
    "conversion": lambda t: t["ints"].float().to("mps") * 2,
    "mask": lambda t: t["x"][t["mask"]],
    "stack": lambda t: torch.stack([t["host"], t["other"]]).to("mps"),
    "contiguous": lambda t: t["host"].view(2, 2).t().contiguous().to("mps"),
    "numpy": lambda t: torch.from_numpy(t["host"].numpy().astype("float64")).to(
        "mps", torch.float32
    ),
    "numpy_number": lambda t: t["x"] * torch.from_numpy(t["number"].numpy()),
    "numpy_item": lambda t: t["x"] * torch.from_numpy(t["host"].numpy())[2].item(),
    "generator": lambda t: torch.randn(4, generator=t["generator"]).to("mps"),
    "draw": lambda t: torch.empty(4).uniform_().to("mps"),
    "deepcopy": lambda t: copy.deepcopy(t["module"]).to("mps"),
    "new_module": lambda t: nn.Linear(2, 2).to("mps"),
    "written": lambda t: t["x"] + t["host"].mul_(2).to("mps"),
    "written_later": lambda t: (t["x"].copy_(t["host"]), t["host"].add_(1)),
    "constant_written_later": lambda t: write_later(torch.zeros(4)),
    "filled_from_outside": lambda t: torch.zeros(4).copy_(t["host"]).to("mps"),
    "number": lambda t: t["x"] * (t["number"] + 1),
    "index": lambda t: t["x"][t["indices"] + 1],
    "average": lambda t: t["average"].update_parameters(t["model"]),
    "first_average": lambda t: t["first"].update_parameters(t["model"]),
    "condition": lambda t: t["host"].add_(1) if (t["host"] > 2).any() else None,
    "condition_after": lambda t: bool(t["host"].add_(1).sum() > 3),
}


def write_later(host):
    y = host.to("mps")
    host.add_(1)
    return y


REPEATED_HOST_WORK = {
    "converted": lambda t: t["ints"].to("mps", torch.float32),
    "expanded": lambda t: t["x"].copy_(t["number"].expand(4)),
    "indices": lambda t: t["x"][t["indices"]],
    "view": lambda t: t["host"].view(2, 2).t()[1].to("mps"),
}

CONSTANT_HOST_WORK = {
    "literal": lambda t: torch.tensor([1.0, 2.0], device="mps"),
    "host_literal": lambda t: torch.tensor([1.0, 2.0]).to("mps"),
    "zeros": lambda t: torch.zeros(3).to("mps"),
    "arange": lambda t: torch.arange(5).float().to("mps"),
    "like": lambda t: torch.zeros_like(t["host"]).to("mps"),
    "sum": lambda t: torch.ones(3, 3).tril().sum(0).to("mps"),
    "assigned": lambda t: assigned(torch.zeros(4)).to("mps"),
    "list": lambda t: torch.arange(4.0, device="mps")[[0, 2]],
}


def assigned(host):
    host[0] = 5.0
    host[1:3] = 2
    host[[3]] = 7.0
    return host


class TestHostWork(GraphTestCase):
    """What operators compute on the CPU is repeated by each replay, or the capture raises."""

    def tensors(self):
        model = nn.Linear(2, 2).to("mps")
        average = torch.optim.swa_utils.AveragedModel(model)
        average.update_parameters(model)
        return {
            "x": torch.randn(4, device="mps"),
            "host": torch.arange(4.0),
            "other": torch.ones(4),
            "ints": torch.arange(4),
            "mask": torch.tensor([True, False, True, True]),
            "indices": torch.tensor([2, 0]),
            "number": torch.tensor(3.0),
            "generator": torch.Generator().manual_seed(1),
            "module": nn.Linear(2, 2),
            "model": model,
            "average": average,
            "first": torch.optim.swa_utils.AveragedModel(model),
        }

    @parametrize("frozen", [False, True])
    @parametrize("name", list(HOST_WORK))
    def test_host_work_raises(self, name, frozen):
        tensors = self.tensors()
        graph = torch.mps.MPSGraph()
        with self.assertRaisesRegex(
            RuntimeError,
            "(aten::.* (computed|wrote to) a CPU tensor .*py:|memory of numpy).*Compute it before the capture",
        ):
            with torch.mps.graph(graph, freeze_host_reads=frozen):
                HOST_WORK[name](tensors)
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            graph.replay()

    def test_names_operator_and_line(self):
        """The operator that the program called, where it called it."""
        host = torch.arange(4)
        copied = None
        with self.assertRaises(RuntimeError) as raised, torch.mps.graph_capture():
            line = inspect.currentframe().f_lineno + 1
            y = host.float()
            copied = y.to("mps")
        self.assertIsNone(copied)
        self.assertRegex(
            str(raised.exception),
            rf"aten::to computed a CPU tensor \(.*test_mps_graph.py:{line} \(test_names_operator_and_line\)\)",
        )

    @parametrize("name", list(REPEATED_HOST_WORK))
    def test_is_read_again(self, name):
        tensors = self.tensors()
        graph, y = captured(lambda: REPEATED_HOST_WORK[name](tensors))
        for i in range(2):
            tensors["host"].add_(i + 1)
            tensors["ints"].add_(i + 1)
            tensors["indices"].copy_(torch.tensor([i, 3]))
            tensors["number"].add_(i + 1)
            tensors["x"].copy_(torch.randn(4))
            graph.replay()
            result = y.clone()
            self.assertEqual(result, REPEATED_HOST_WORK[name](tensors))

    @parametrize("name", list(CONSTANT_HOST_WORK))
    def test_constant_of_the_block(self, name):
        tensors = self.tensors()
        graph, y = captured(lambda: CONSTANT_HOST_WORK[name](tensors) * 2)
        expected = y.cpu()
        y.fill_(93)
        graph.replay()
        self.assertEqual(y.cpu(), expected)
        self.assertEqual(y, CONSTANT_HOST_WORK[name](tensors) * 2)

    def test_work_that_stays_on_the_host(self):
        """What does not reach the device is none of the graph's business."""
        host, x = torch.arange(4.0), torch.ones(4, device="mps")
        with torch.mps.graph_capture():
            total = (host.mul_(2) + torch.randn(4)).sum()
            y = x + 1
        x.fill_(3)
        torch.mps.graph_replay()
        self.assertEqual(y.cpu(), torch.full((4,), 4.0))
        self.assertEqual(total.shape, ())

    def test_frozen_read_is_a_constant(self):
        """What the host computes from a fixed value is fixed, too."""
        x = torch.ones(4, device="mps")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.mps.graph_capture(freeze_host_reads=True):
                y = (x.cpu() * 2 + 1).to("mps") + x
        x.fill_(5)
        torch.mps.graph_replay()
        self.assertEqual(y.cpu(), torch.full((4,), 8.0))


def event_uses(timed=True):
    """What can be done with events that were recorded, by what a capture says of it."""
    stream = torch.Stream(device="mps")
    events = torch.mps.Event(), torch.Event("mps")
    start, end = (torch.mps.Event(enable_timing=True) for _ in range(2))
    for event in (*events, start, end):
        event.record()
        torch.mps.synchronize()
    return {
        "an event was recorded": (
            *(event.record for event in events),
            torch.Event("mps").record,
            stream.record_event,
            lambda: stream.wait_stream(stream),
        ),
        "the stream waits for an event": (
            *(event.wait for event in events),
            lambda: stream.wait_event(events[1]),
        ),
        "the host waits for an event": (
            *(event.synchronize for event in events),
            *(event.query for event in events),
            *((lambda: start.elapsed_time(end),) if timed else ()),
        ),
    }


class TestRefusals(GraphTestCase):
    @parametrize("name", list(READS))
    def test_host_read_raises(self, name):
        x = torch.randn(8, device="mps")
        self.assert_refused("the host read device data", lambda: READS[name](x * 2))

    def test_host_read_names_the_line(self):
        """Of the program, not of the library that is called; also where Python can't be asked."""
        x = torch.ones(4, device="mps")
        line = inspect.currentframe().f_lineno + 3
        for read in (x.tolist, x.__repr__, lambda: F.one_hot(x.long())):
            with self.assertRaises(RuntimeError) as raised, torch.mps.graph_capture():
                read()
            expected = f"{__file__}:{line} (test_host_read_names_the_line)"
            if read.__name__ == "<lambda>":
                expected = f"{__file__}:{line - 2} (<lambda>)"
            self.assertIn(f", at {expected}. ", str(raised.exception))

    def test_host_read_in_another_thread_names_its_line(self):
        """While a thread that has the interpreter's lock runs operators of the capture."""

        class Read(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * grad.sum().item()

        x = torch.ones(4, device="mps", requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, rf"{__file__}:\d+ \(backward\)"):
            with torch.mps.graph_capture():
                Read.apply(x).sum().backward()

    @parametrize("mode", ["global", "thread_local", "relaxed", "default"])
    def test_error_modes(self, mode):
        """CUDA's words, none of which fixes a value. What another thread does is no error in any of them."""
        x = torch.ones(4, device="mps")
        graph = torch.mps.MPSGraph()
        with self.assertRaisesRegex(RuntimeError, "the host read device data"):
            with torch.mps.graph(graph, None, None, mode):
                (x * 2).tolist()
        read = []
        with torch.mps.graph(graph, None, None, mode):
            y = x * 2
            self.run_together(lambda: read.append((x + 1).tolist()))
        self.assertEqual(read, [[2.0] * 4])
        self.check_filled(graph, x, 5, y, 10.0)

    def test_frozen_host_read(self):
        """It runs, warns once, and replays use the value of the capture."""
        x = torch.ones(4, device="mps")
        graph = torch.mps.MPSGraph()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with torch.mps.graph(graph, freeze_host_reads=True):
                y = x * x.sum().item() + x.cpu()[0].item()
        self.assertEqual(
            len([w for w in caught if "freeze_host_reads" in str(w.message)]), 1
        )
        self.check_filled(graph, x, 2.0, y, 9.0)

    def test_fallback_raises(self):
        x = torch.randn(4, 4, device="mps")
        words = "linalg_svd.* falls back to the CPU"
        self.assert_refused(words, lambda: torch.linalg.svd(x))

    def test_events_raise(self):
        """Events of every class, through every entry point."""
        for words, uses in event_uses().items():
            for use in uses:
                self.assert_refused(words, use)

    def test_events_of_another_thread(self):
        def work():
            # elapsed_time() does not wait until the host knows the first event's time
            for uses in event_uses(timed=False).values():
                for use in uses:
                    use()

        x = torch.ones(4, device="mps")
        graph, y = captured(lambda: (self.run_together(work), x + 1)[1])
        self.check_filled(graph, x, 2, y, 3.0)

    def test_profiler_raises(self):
        with self.assertRaisesRegex(RuntimeError, "the profiler was started"):
            captured(torch.mps.profiler.start)
        with torch.mps.profiler.profile():
            with self.assertRaisesRegex(RuntimeError, "profiler is on"):
                captured(lambda: self.fail("the block of a refused capture ran"))
        captured(lambda: None)

    def test_nested_capture_raises(self):
        """The outer capture goes on, with its pool, and the other graph is as it was."""
        x = torch.ones(4, device="mps")
        other, handle = torch.mps.MPSGraph(), torch.mps.graph_pool_handle()
        with torch.mps.graph_capture(handle) as outer:
            y = x + 1
            for nested in (
                torch.mps.graph_capture(),
                *map(torch.mps.graph, (outer, other)),
            ):
                with self.assertRaisesRegex(RuntimeError, "can't be nested"):
                    with nested:
                        pass
            z = y * 2
        self.assertEqual(outer.pool(), handle)
        with self.assertRaisesRegex(RuntimeError, "before a capture"):
            other.pool()
        x.fill_(5)
        torch.mps.graph_replay()
        self.assertEqual(z.cpu(), torch.full((4,), 12.0))
        self.assertEqual(outer.stats()["replays"], 1)


class TestInstantiation(GraphTestCase):
    def capture(self, **options):
        self.x = torch.ones(8, device="mps")
        graph = torch.mps.MPSGraph(keep_graph=True, **options)
        with torch.mps.graph(graph):
            self.y = (self.x * 2).exp().softmax(0)
        return graph

    def assert_replays(self, graph):
        self.x.copy_(torch.randn(8))
        self.y.fill_(93)
        graph.replay()
        self.assertEqual(self.y, (self.x * 2).exp().softmax(0), **EXACT)

    def test_replays_before_and_after(self):
        """With the environment of the moment."""
        graph = self.capture()
        self.assert_replays(graph)
        for indirect in ("0", "1", "0"):
            with unittest.mock.patch.dict(
                os.environ, PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS=indirect
            ):
                graph.instantiate()
            self.assert_replays(graph)
            self.assert_replays(graph)

    def test_first_replay_in_a_capture(self):
        inner = self.capture()
        outer = torch.mps.MPSGraph()
        with torch.mps.graph(outer):
            inner.replay()
            z = self.y + 1
        self.x.copy_(torch.randn(8))
        z.fill_(93)
        outer.replay()
        self.assertEqual(z, (self.x * 2).exp().softmax(0) + 1, **EXACT)

    def test_while_another_thread_replays(self):
        graph = self.capture()
        graph.replay()
        done = threading.Event()

        def instantiate():
            while not done.is_set():
                graph.instantiate()

        thread = threading.Thread(target=instantiate)
        thread.start()
        try:
            for _ in range(50):
                self.assert_replays(graph)
        finally:
            done.set()
            thread.join()

    def test_debug_dump(self):
        """Allowed, also before it is instantiated."""
        graph = self.capture()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.json")
            graph.debug_dump(path)
            with open(path) as file:
                steps = json.load(file)["steps"]
        stats = graph.stats()
        self.assertEqual(len(steps), stats["graph_runs"] + stats["kernels"])

    def test_lines_in_a_debug_dump(self):
        """A replay in the block has none, and does not take that of the next operator."""
        x = torch.ones(4, 4, device="mps")
        inner = torch.mps.MPSGraph()
        with torch.mps.graph(inner):
            y = x * 2
        graph = torch.mps.MPSGraph(keep_graph=True)
        with torch.mps.graph(graph):
            z = torch.relu(
                x @ y,
            )
            inner.replay()
            z.fill_(0)
        steps = graph._dump()["steps"]
        here = inspect.currentframe().f_lineno
        place = f"{__file__}:{{}} (test_lines_in_a_debug_dump)"
        self.assertEqual(
            [(step["op"], step.get("line")) for step in steps],
            [
                ("aten::mm", place.format(here - 5)),
                ("aten::relu", place.format(here - 6)),
                ("aten::mul", None),
                ("aten::fill_", place.format(here - 2)),
            ],
        )

    def test_page_of_a_debug_dump(self):
        """What a browser's script reads is the dump, whatever the names in it are."""
        graph = self.capture()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.html")
            graph.debug_dump(path)
            with open(path, encoding="utf-8") as file:
                page = file.read()
        dump = re.search(r"<script>const graph = (.*), colors = ", page)[1]
        self.assertEqual(json.loads(dump), graph._dump())
        for kind in {step["kind"] for step in graph._dump()["steps"]}:
            self.assertIn(f'value="{kind}"', page)
        step = {"kind": "</script>", "op": "<b>", "line": "&", "buffers": []}
        page = as_html({"buffers": [], "steps": [step]})
        self.assertEqual(page.count("</script>"), 1)
        self.assertNotIn("<b>", page)


class TestLife(GraphTestCase):
    def test_stream(self):
        """CUDA's order of arguments; the one stream."""
        x = torch.ones(4, device="mps")
        graph = torch.mps.MPSGraph()
        pool = torch.mps.graph_pool_handle()
        stream = torch.Stream(device="mps")
        with torch.mps.graph(graph, pool, stream, "relaxed", True, {}, True):
            y = x * 1 + 1
        self.assertEqual(graph.pool(), pool)
        self.check_filled(graph, x, 5, y, 6.0)

    def test_without_the_bindings(self):
        """As where another backend has the device: optimizers and swap_tensors ask torch.mps and get an answer."""
        names = (
            "_MPSGraph",
            "_MPSGraphContext",
            "_mps_graph_pool_handle",
            "_mps_isCurrentStreamCapturing",
            "_mps_isWatchedByGraph",
        )
        kept = {name: getattr(torch._C, name) for name in names}
        try:
            for name in names:
                delattr(torch._C, name)
            graphs = types.ModuleType("torch.mps.graphs_without_bindings", "")
            graphs.__package__ = "torch.mps"
            with open(torch.mps.graphs.__file__) as file:
                exec(compile(file.read(), graphs.__name__, "exec"), vars(graphs))
            parameter = torch.ones(2, device="mps", requires_grad=True)
            parameter.grad = torch.ones(2, device="mps")
            torch.optim.Adam([parameter], lr=0.5).step()
            self.assertEqual(parameter.tolist(), [0.5, 0.5])
            x, y = torch.zeros(1, device="mps"), torch.ones(1, device="mps")
            torch.utils.swap_tensors(x, y)
            self.assertEqual((x.item(), y.item()), (1.0, 0.0))
            self.assertFalse(graphs.is_current_stream_capturing())
            for unavailable in (graphs.Graph, graphs.graph_pool_handle):
                with self.assertRaisesRegex(RuntimeError, "dummy base class"):
                    unavailable()
        finally:
            for name, value in kept.items():
                setattr(torch._C, name, value)

    @parametrize("empty_cache", [True, False])
    def test_memory_is_given_back_before_a_capture(self, empty_cache):
        torch.mps.empty_cache()
        before = torch.mps.driver_allocated_memory()
        x = torch.ones(4, device="mps")
        torch.empty(64 << 20, device="mps")
        self.assertGreaterEqual(
            torch.mps.driver_allocated_memory(), before + (64 << 20)
        )
        with torch.mps.graph_capture(empty_cache=empty_cache):
            y = x + 1
        is_there = torch.mps.driver_allocated_memory() >= before + (64 << 20)
        self.assertEqual(is_there, not empty_cache)
        x.fill_(5)
        y.fill_(93)
        torch.mps.graph_replay()
        self.assertEqual(y.tolist(), [6.0] * 4)

    @parametrize("error", [ValueError, KeyboardInterrupt])
    def test_exception_in_block(self, error):
        """The graph is empty, its memory given back, and the next capture works."""
        x = torch.ones(1 << 12, device="mps")
        before = self.stable_memory_level()
        graph = torch.mps.MPSGraph()
        with self.assertRaises(error):
            with torch.mps.graph(graph):
                y = x * 2
                raise error
        del y
        self.assert_level(before)
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            graph.replay()
        with torch.mps.graph(graph):
            y = x * 4
        x.fill_(2)
        graph.replay()
        self.assertEqual(y[0].item(), 8.0)

    def test_exception_forgets_the_current_graph(self):
        x = torch.ones(4, device="mps")
        with torch.mps.graph_capture():
            x + 1
        with self.assertRaises(ValueError):
            with torch.mps.graph_capture():
                raise ValueError
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            torch.mps.graph_replay()

    def test_empty_graphs(self):
        """A no-op with a warning after an empty capture; an error before, during and after."""
        graph = torch.mps.MPSGraph()
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            graph.replay()
        with torch.mps.graph(graph):
            with self.assertRaisesRegex(RuntimeError, "still being captured"):
                graph.replay()
        with self.assertWarnsRegex(UserWarning, "nothing to replay"):
            graph.replay()
        graph.reset()
        with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
            graph.replay()

    def test_second_capture_needs_reset(self):
        x = torch.ones(4, device="mps")
        graph, y = captured(lambda: x + 1)
        with self.assertRaisesRegex(RuntimeError, "already holds a capture"):
            graph.capture_begin()
        graph.reset()
        with torch.mps.graph(graph):
            y = x + 2
        self.check_filled(graph, x, 3, y, 5.0)

    def test_graph_destroyed_in_its_capture(self):
        graph = torch.mps.MPSGraph()
        graph.capture_begin()
        del graph
        gc.collect()
        self.assertFalse(torch.mps.is_current_stream_capturing())

    def test_several_graphs(self):
        x = torch.ones(4, device="mps")
        first, y = captured(lambda: x * 2)
        second, z = captured(lambda: y + 1)
        self.check_filled(second, x, 10, z, 3.0)
        first.replay()
        second.replay()
        self.assertEqual(z.cpu(), torch.full((4,), 21.0))

    def test_replay_in_capture(self):
        """The inner graph's work becomes part of the outer, which keeps the inner's memory."""
        x = torch.randn(16, 16, device="mps")
        inner, outer = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(inner):
            copied = torch.empty_like(x)
            copied.copy_(x)
            y = torch.fmax(copied @ x, x)
        with torch.mps.graph(outer):
            inner.replay()
            z = y * 2
        del inner, copied
        gc.collect()
        noise = [torch.full((16, 16), 9.0, device="mps") for _ in range(8)]
        x.copy_(torch.randn(16, 16))
        outer.replay()
        self.assertEqual(z, torch.fmax(x @ x, x) * 2)
        del noise

    def test_memory_is_given_back(self):
        x = torch.randn(64, 64, device="mps")
        block = lambda: ((x @ x).softmax(-1) * 2.5).sum()  # noqa: E731
        before = self.stable_memory_level()
        graph, out = captured(block)
        self.assertGreater(torch.mps.current_allocated_memory(), before)
        del out
        graph.reset()
        self.assert_level(before)
        graph, out = captured(block)
        del graph, out
        self.assert_level(before)

    def test_inputs_are_kept(self):
        x = torch.ones(32, 32, device="mps")
        scale = torch.full((32, 32), 3.0, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph, check_input_liveness=False):
            y = x * scale
        kept = x.nbytes + scale.nbytes
        before = self.stable_memory_level()
        del scale
        # it still counts, as the graph's
        self.assertEqual(self.stable_memory_level(), before)
        self.assertEqual(graph.stats()["buffers"], 2)
        self.assertGreaterEqual(graph.stats()["buffer_bytes"], kept)
        others = [torch.full((32, 32), 9.0, device="mps") for _ in range(8)]
        self.check_filled(graph, x, 2.0, y, 6.0)
        del others

    MOVES = {
        "resize_": (lambda x, m: m(x), lambda x, m: x.resize_(1 << 16, 4)),
        "set_": (lambda x, m: m(x), lambda x, m: x.set_(torch.randn_like(x))),
        "data": (
            lambda x, m: m(x),
            lambda x, m: setattr(m.weight, "data", torch.randn_like(m.weight)),
        ),
        "half": (lambda x, m: m(x), lambda x, m: m.half()),
        "view": (
            lambda x, m: x @ m.weight.t(),
            lambda x, m: setattr(m.weight, "data", torch.randn_like(m.weight)),
        ),
        "kernel": (
            lambda x, m: twice(x),
            lambda x, m: setattr(x, "data", torch.ones_like(x)),
        ),
    }

    @parametrize("how", list(MOVES))
    @torch.no_grad()
    def test_moved_storage_raises(self, how):
        """Also when a custom kernel, or only an operator on a view, got the tensor."""
        block, move = self.MOVES[how]
        layer = nn.Linear(4, 4, device="mps")
        x = torch.randn(4, 4, device="mps")
        graph, _ = captured(lambda: block(x, layer))
        graph.replay()
        move(x, layer)
        words = r"Float tensor of shape \[4, 4\] with a storage of .* now has "
        with self.assertRaisesRegex(RuntimeError, words + ".*another storage"):
            graph.replay()

    @parametrize("how", ["parameter", "module", "resize_", "later", "view"])
    def test_moved_storage_behind_data_raises(self, how):
        """.data is no operator; the capture sees only the tensor that it gives, which goes at once or later."""
        layer = nn.Linear(4, 4).to("mps")
        x = torch.randn(4, 4, device="mps")
        inputs = [x.data] if how == "later" else []
        graph = torch.mps.MPSGraph()
        block = {
            "parameter": lambda: x @ layer.weight.data,
            "module": lambda: x @ layer.weight.data,
            "later": lambda: inputs[0] * 2,
            "view": lambda: x.data[1:].t() * 2,
        }.get(how, lambda: x.data * 2)
        with torch.no_grad(), torch.mps.graph(graph, check_input_liveness=False):
            y = block()
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, block())
        inputs.clear()
        graph.replay()
        if how == "parameter":
            layer.weight.data = torch.randn(4, 4, device="mps")
        elif how == "module":
            layer.cpu()
            layer.to("mps")
        elif how == "resize_":
            x.resize_(100, 100)
        else:
            x.set_(torch.randn(4, 4, device="mps"))
        with self.assertRaisesRegex(
            RuntimeError,
            r"Float tensor of shape \[4, 4\] with a storage of 64 bytes.*capture again",
        ):
            graph.replay()

    @parametrize("where", ["before", "in_block", "outer", "step"])
    def test_gradient_set_to_none(self, where):
        """What the block would make the gradient of a parameter, a replay does, whatever zero_grad() did meanwhile."""
        layer, reference = nn.Linear(4, 4).to("mps"), nn.Linear(4, 4).to("mps")
        reference.load_state_dict(layer.state_dict())
        optimizers = [
            torch.optim.SGD(one.parameters(), lr=0.1) for one in (layer, reference)
        ]
        x = torch.randn(3, 4, device="mps")

        def block(one, optimizer):
            if where != "before":
                optimizer.zero_grad()
            one(x).square().sum().backward()
            if where == "step":
                optimizer.step()

        block(layer, optimizers[0])
        block(reference, optimizers[1])
        layer.zero_grad()
        graph, _ = captured(lambda: block(layer, optimizers[0]))
        reference.zero_grad()
        block(reference, optimizers[1])
        if where == "outer":
            graph, _ = captured(graph.replay)
        for i in range(4):
            x.copy_(torch.randn(3, 4))
            for one in (layer, reference):
                if where == "step" and i == 2:
                    one.weight.grad = torch.ones(4, 4, device="mps")
                else:
                    one.zero_grad()
            graph.replay()
            block(reference, optimizers[1])
            self.assertEqual(
                [p.grad for p in layer.parameters()],
                [p.grad for p in reference.parameters()],
            )
            for one, optimizer in zip((layer, reference), optimizers):
                if where != "step":
                    optimizer.step()
            self.assertEqual(layer.state_dict(), reference.state_dict())

    @parametrize("how", ["added_none", "added_other", "made_other", "outer_none"])
    def test_replaced_gradient_raises(self, how):
        """One that the block adds to, or that is another tensor now, would not get what eager adds to it."""
        layer = nn.Linear(4, 4).to("mps")
        x = torch.randn(3, 4, device="mps")
        if how != "made_other":
            layer(x).sum().backward()
        graph, _ = captured(lambda: layer(x).square().sum().backward())
        if how == "outer_none":
            graph, _ = captured(graph.replay)
        before = layer.weight.grad.clone()
        x.copy_(torch.randn(3, 4))
        layer.zero_grad(set_to_none=False)
        graph.replay()
        self.assertNotEqual(layer.weight.grad, before)
        if how.endswith("none"):
            layer.zero_grad()
        else:
            layer.weight.grad = layer.weight.grad.clone()
        with self.assertRaisesRegex(
            RuntimeError,
            r"\.grad of the Float tensor of shape \[4(, 4)?\] was (set to None|replaced).*"
            + ("Set it to None" if how == "made_other" else "set_to_none=False"),
        ):
            graph.replay()

    def test_gradient_of_a_leaf_that_no_operator_is_given(self):
        """The forward pass of its layer is not in the block."""
        layer = nn.Linear(4, 4).to("mps")
        loss = layer(torch.randn(3, 4, device="mps")).square().sum()
        graph, _ = captured(lambda: loss.backward(retain_graph=True))
        expected = [parameter.grad.clone() for parameter in layer.parameters()]
        layer.zero_grad()
        graph.replay()
        self.assertEqual([parameter.grad for parameter in layer.parameters()], expected)

    @parametrize("step", [False, True])
    def test_gradient_of_a_graph_in_a_graph(self, step):
        """It ends as that of the last backward pass."""
        layer, eager = nn.Linear(4, 4).to("mps"), nn.Linear(4, 4).to("mps")
        eager.load_state_dict(layer.state_dict())
        x = torch.randn(3, 4, device="mps")

        def train(layer, factor):
            optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
            optimizer.zero_grad()
            (layer(x) * factor).square().sum().backward()
            if step:
                optimizer.step()

        inner, _ = captured(train, layer, 1)
        outer, _ = captured(lambda: (inner.replay(), train(layer, 3)))
        train(eager, 1)
        train(eager, 1)
        train(eager, 3)
        x.copy_(torch.randn(3, 4))
        for _ in range(2):
            outer.replay()
            train(eager, 1)
            train(eager, 3)
            for parameter, expected in zip(layer.parameters(), eager.parameters()):
                self.assertEqual(parameter.grad, expected.grad)
                self.assertEqual(parameter, expected)

    def test_gradient_of_a_graph_that_the_block_adds_to(self):
        """The graph makes it anew in each replay, so it may be None in between."""
        layer, eager = nn.Linear(4, 4).to("mps"), nn.Linear(4, 4).to("mps")
        eager.load_state_dict(layer.state_dict())
        x = torch.randn(3, 4, device="mps")

        def add(layer):
            layer(x).square().sum().backward()

        def train(layer):
            layer.zero_grad()
            add(layer)

        inner, _ = captured(train, layer)
        outer, _ = captured(lambda: (inner.replay(), add(layer)))
        for _ in range(2):
            x.copy_(torch.randn(3, 4))
            layer.zero_grad()
            outer.replay()
            train(eager)
            add(eager)
            for parameter, expected in zip(layer.parameters(), eager.parameters()):
                self.assertEqual(parameter.grad, expected.grad)

    def test_gradient_that_the_graph_leaves_alone(self):
        """One that it only reads, or that is gone when the block ends, may be replaced."""
        layer = nn.Linear(4, 4).to("mps")
        x = torch.randn(3, 4, device="mps")
        layer(x).sum().backward()
        reading, inside = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(reading, check_input_liveness=False):
            norm = layer(x).detach() + layer.weight.grad.norm()
        layer.zero_grad()
        reading.replay()
        with torch.mps.graph(inside):
            layer(x).square().sum().backward()
            norm = layer.weight.grad.norm()
            layer.zero_grad()
        layer(x).square().sum().backward()
        x.copy_(torch.randn(3, 4))
        inside.replay()
        layer.zero_grad()
        layer(x).square().sum().backward()
        self.assertEqual(norm, layer.weight.grad.norm())

    def test_memory_behind_data_may_be_dropped_in_the_block(self):
        """What nothing else has by the end of the block can't be given new content."""
        x = torch.ones(4, device="mps")
        held = [torch.full((4,), 2.0, device="mps")]
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph, check_input_liveness=False):
            y = x * held.pop().data
            z = (x + 1).data * 3
        self.check_filled(graph, x, 5, y, 10.0)
        self.assertEqual(z.cpu(), torch.full((4,), 18.0))

    @parametrize("how", ["resize_", "data"])
    @parametrize("used", [False, True])
    def test_moved_output_raises(self, how, used):
        x = torch.ones(4, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = x * 2
            if used:
                y.add_(1)
        self.check_filled(graph, x, 2, y, 5.0 if used else 4.0)
        if how == "resize_":
            y.resize_(1 << 16)
        else:
            y.data = torch.zeros(4, device="mps")
        with self.assertRaisesRegex(
            RuntimeError, r"Float tensor of shape \[4\].*and another storage"
        ):
            graph.replay()

    USES = {
        "kernel": lambda t: torch.fmax(t, t),
        "graph_run": lambda t: t @ t,
        "view": lambda t: t.t()[1:] + 1,
        "copy": lambda t: t.clone(),
        "custom": lambda t: twice(t),
    }

    @parametrize("use", list(USES))
    @parametrize("check", [True, False])
    def test_input_that_is_gone_raises(self, use, check):
        """With check_input_liveness; without, replays go on with the old memory."""
        module = nn.Linear(4, 4).to("mps").requires_grad_(False)
        x = torch.ones(4, 4, device="mps")
        with torch.mps.graph_capture(check_input_liveness=check) as graph:
            y = x * 2 + 1
            self.USES[use](module.weight)
        self.check_filled(graph, x, 3, y, 7.0)
        module.weight.copy_(torch.randn(4, 4))
        graph.replay()
        other = {"weight": torch.randn(4, 4, device="mps"), "bias": module.bias}
        module.load_state_dict(other, assign=True)
        gc.collect()
        if check:
            with self.assertRaisesRegex(
                RuntimeError,
                r"the Float tensor of shape \[4, 4\] with a storage of 64 bytes.* is gone.*"
                "check_input_liveness",
            ):
                graph.replay()
        else:
            graph.replay()
        torch.mps.graph_reset()

    def test_state_that_the_block_replaces_raises(self):
        """Eager would read the new tensor, and a replay the old one."""
        state = {"h": torch.zeros(2, device="mps")}
        x = torch.ones(2, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            state["h"] = torch.tanh(state["h"] + x)
        with self.assertRaisesRegex(
            RuntimeError, r"aten::add at .* is gone: .* new tensor"
        ):
            graph.replay()

    def test_memory_of_another_graph_may_go(self):
        """Its replay writes the memory, which the program need not have."""
        x = torch.ones(4, device="mps")
        first, second = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(first):
            between = x * 2
        with torch.mps.graph(second, pool=first.pool()):
            y = between + 1
        del between
        gc.collect()
        for value in (3.0, 4.0):
            x.fill_(value)
            y.zero_()
            first.replay()
            second.replay()
            self.assertEqual(y.cpu(), torch.full((4,), 2 * value + 1))

    def test_what_the_block_made_may_go(self):
        """Check_input_liveness is about what existed before."""
        x = torch.ones(4, device="mps")
        made = []
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph, check_input_liveness=True):
            made.append((x * 2).exp())
            made.append(made[0][1:] + 1)
        made.clear()
        gc.collect()
        y = x.view(2, 2)
        del x
        graph.replay()
        y.resize_(8)
        with self.assertRaisesRegex(RuntimeError, "another storage|is gone"):
            graph.replay()

    def test_graph_reset(self):
        """Lets the graph of graph_capture() go, with its memory; not one that the caller named."""
        torch.mps.graph_reset()
        x = torch.ones(1 << 16, device="mps")
        before = self.stable_memory_level()
        with torch.mps.graph_capture():
            (x * 2).exp().sum()
        self.assertGreater(torch.mps.current_allocated_memory(), before)
        torch.mps.graph_reset()
        self.assert_level(before)
        with self.assertRaisesRegex(RuntimeError, "without a captured graph"):
            torch.mps.graph_replay()
        torch.mps.graph_reset()
        with torch.mps.graph_capture() as graph:
            y = x * 2
        torch.mps.graph_reset()
        self.check_filled(graph, x, 4, y, 8.0)

    def test_recapture_in_a_loop(self):
        """Each graph replaces the one before, and what that one kept goes with it."""
        x = torch.ones(1 << 14, device="mps")
        weights = [torch.ones(1 << 14, device="mps") for _ in range(4)]
        levels, kept = [], []
        for i in range(30):
            # new inputs each time, of which the old graph alone holds the memory
            bias = torch.full((1 << 14,), float(i), device="mps")
            with torch.mps.graph_capture() as graph:
                y = x
                for weight in weights:
                    y = torch.fmax(y * weight, bias)
            x.fill_(i + 1)
            graph.replay()
            self.assertEqual(y.cpu(), torch.full((1 << 14,), float(i + 1)))
            levels.append(self.stable_memory_level())
            kept.append(graph.stats()["buffers"])
        self.assertLessEqual(max(levels[10:]), max(levels[:10]))
        self.assertEqual(len(set(kept[2:])), 1, kept)

    @parametrize("which", [0, 1])
    def test_swapped_tensors_raise(self, which):
        """As long as a graph uses one of them, and before anything is swapped."""
        tensors = [torch.ones(4, device="mps"), torch.zeros(4, device="mps")]
        graph, y = captured(lambda: tensors[which] + 1)
        with self.assertRaisesRegex(
            RuntimeError, f"Cannot swap t{which + 1} because .* a graph of torch.mps"
        ):
            torch.utils.swap_tensors(*tensors)
        self.assertEqual(tensors[0].cpu(), torch.ones(4))
        tensors[which].fill_(6)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((4,), 7.0))
        del y
        graph.reset()
        tensors[which].fill_(3)
        torch.utils.swap_tensors(*tensors)
        self.assertEqual(tensors[1 - which].cpu(), torch.full((4,), 3.0))

    @parametrize("how", ["data", "resize_"])
    @parametrize("again", [False, True])
    def test_move_in_block_raises(self, how, again):
        """Steps before and after the move would use different memory, which eager would not do again."""
        x = torch.ones(4, device="mps")

        def move():
            x + 1
            if how == "data":
                x.data = torch.zeros(4, device="mps")
            else:
                x.resize_(1 << 16)
            if again:
                x + 1

        self.assert_refused("Do that before the capture", move, catches=False)
        x = torch.ones(4, device="mps")
        graph, z = captured(
            lambda: (torch.ones(4, device="mps") + x).resize_(1 << 16).fill_(3)[:4] + x
        )
        self.check_filled(graph, x, 5, z, 8.0)

    def test_debug_dump(self):
        x = torch.ones(4, 4, device="mps")
        host = torch.ones(4)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            y = torch.erfinv(x)
            y[1].copy_(host)
            y.zero_()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.json")
            with self.assertRaisesRegex(RuntimeError, "enable_debug_mode"):
                graph.debug_dump(path)
            graph.enable_debug_mode()
            graph.debug_dump(path)
            with open(path) as file:
                text = file.read()
            path = os.path.join(folder, "graph.dot")
            graph.debug_dump(path)
            with open(path) as file:
                dot = file.read()
        self.assertExpectedInline(
            text,
            """\
{
 "buffers": [
  {"bytes": 256, "memory": "pool"},
  {"bytes": 256, "memory": "kept"}
 ],
 "steps": [
  {"kind": "kernel", "op": "aten::erfinv", "threads": [16, 1, 1], "threads_per_threadgroup": [16, 1, 1], "bytes": [0], "buffers": [{"buffer": 0, "offset": 0, "access": "bind"}, {"buffer": 1, "offset": 0, "access": "bind"}]},
  {"kind": "host_refresh", "op": "aten::copy_", "length": [16], "buffers": [{"buffer": 0, "offset": 16, "access": "write"}]},
  {"kind": "fill", "op": "aten::zero_", "length": [64], "value": [0], "buffers": [{"buffer": 0, "offset": 0, "access": "write"}]}
 ]
}
""",  # noqa: B950
        )
        self.assertExpectedInline(
            dot,
            """\
digraph mps_graph {
  b0 [shape=ellipse, label="buffer 0\\n256 bytes, pool"];
  b1 [shape=ellipse, label="buffer 1\\n256 bytes, kept"];
  s0 [shape=box, label="0: kernel aten::erfinv\\nthreads=[16, 1, 1]\\nthreads_per_threadgroup=[16, 1, 1]\\nbytes=[0]"];
  b0 -> s0 [dir=none, style=dashed, label="0"];
  b1 -> s0 [dir=none, style=dashed, label="0"];
  s1 [shape=box, label="1: host_refresh aten::copy_\\nlength=[16]"];
  s0 -> s1;
  s1 -> b0 [style=dashed, label="16"];
  s2 [shape=box, label="2: fill aten::zero_\\nlength=[64]\\nvalue=[0]"];
  s1 -> s2;
  s2 -> b0 [style=dashed, label="0"];
}
""",
        )


instantiate_parametrized_tests(TestRecording)
instantiate_parametrized_tests(TestValues)
instantiate_parametrized_tests(TestRandom)
instantiate_parametrized_tests(TestKernelObjects)
instantiate_parametrized_tests(TestHostWork)
instantiate_parametrized_tests(TestRefusals)
instantiate_parametrized_tests(TestLife)

if __name__ == "__main__":
    run_tests()
