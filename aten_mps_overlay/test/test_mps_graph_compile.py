# Owner(s): ["module: mps"]

"""torch.compile(backend="mpsgraphs"): later calls replay, and give eager's values on new inputs."""

import contextlib
import copy
import gc
import inspect
import os
import pickle
import random
import re
import subprocess
import sys
import threading
import unittest
import unittest.mock
import warnings

import torch
import torch._dynamo
import torch._dynamo.backends.mpsgraphs
import torch._dynamo.compiled_autograd
import torch._functorch.aot_autograd
import torch._higher_order_ops.effects as effects
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.mps._compiled_graphs import _made
from torch.testing._internal.common_methods_invocations import (
    binary_ufuncs,
    unary_ufuncs,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.testing._internal.subclasses import WrapperSubclass
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import checkpoint


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

EXACT = {"rtol": 0, "atol": 0}


@torch.library.custom_op("mpsgraphs_test::read", mutates_args=())
def read(x: torch.Tensor) -> torch.Tensor:
    """Reads the host, which a capture refuses at once."""
    return x + float(x.sum())


@read.register_fake
def _(x):
    return torch.empty_like(x)


moving = {}


@torch.library.custom_op("mpsgraphs_test::move", mutates_args=())
def move(x: torch.Tensor) -> torch.Tensor:
    """Gives a tensor other memory, which a capture refuses when it ends."""
    moving["tensor"].sin()
    moving["tensor"].resize_(2 * moving["tensor"].numel() + 4096)
    return x * 4


@move.register_fake
def _(x):
    return torch.empty_like(x)


def new(*shape, **options):
    return torch.randn(shape, device="mps", **options)


def reports(part=None):
    return [r for r in torch.mps.compile_report() if part in (None, r["part"])]


class CompileTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        torch.manual_seed(0)

    def tearDown(self):
        torch._dynamo.reset()
        super().tearDown()

    def compare(self, compiled, function, *inputs):
        """A call gives what eager gives."""
        self.assertEqual(compiled(*inputs), function(*inputs), **EXACT)

    def compare_replays(self, graph, x, y, function, between=lambda: None):
        """Replays on new inputs give what eager gives, also after other work."""
        for _ in range(3):
            x.copy_(new(*x.shape))
            y.fill_(93)
            graph.replay()
            between()
            self.assertEqual(y, function(x), **EXACT)

    def check(self, function, *shapes, rounds=4, pieces=(1,), eager_calls=0, **options):
        """Compares calls on new inputs with eager. There is one graph, of so many pieces, and all calls but the first
        are replays."""
        compiled = torch.compile(function, backend="mpsgraphs", options=options)
        for _ in range(rounds):
            inputs = [new(*shape) for shape in shapes]
            given = [x.clone() for x in inputs]
            results = compiled(*given)
            wanted = function(*inputs)
            self.assertEqual(results, wanted, exact_stride=True, **EXACT)
            self.assertEqual(given, inputs, **EXACT)
        (report,) = reports()
        self.assertEqual(report["pieces"], list(pieces))
        self.assertEqual(
            (report["captures"], report["replays"], report["eager_calls"]),
            (1, rounds - 1, eager_calls),
        )
        return report


class TestInference(CompileTestCase):
    def test_module(self):
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("mps")
        with torch.no_grad():
            self.check(model, (3, 8))

    def test_device_without_an_index(self):
        """ "mps" is "mps:0"."""
        self.check(lambda x: torch.arange(6, device="mps") + x, (6,))

    def test_several_results(self):
        def function(x):
            y = x.sin()
            some = [y.T, x, y[:, 1:], y[:, ::2], 3, None]
            return {"a": y, "b": some, "c": y.expand(2, 3, 4), "d": y.sum().expand(3)}

        self.check(function, (3, 4))

    def test_views_alone(self):
        """A graph without steps is not replayed, so that it can't warn of that."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.check(lambda x: (x.view(3, 4).T, x[2:]), (12,))

    @parametrize("copy_outputs", [True, False])
    @parametrize("gradients", [True, False])
    def test_views_of_parts(self, gradients, copy_outputs):
        """Of an argument, a parameter and another result, wherever these begin in their storage."""
        weight = nn.Parameter(new(3, 4, 4)[1])

        def function(x):
            y = x @ weight
            return x.view(1, *x.shape), x.split(2)[1], weight.t(), y[1:], y, y.t()[2]

        compiled = torch.compile(
            function,
            backend="mpsgraphs",
            dynamic=True,
            options={"copy_outputs": copy_outputs},
        )
        with torch.set_grad_enabled(gradients):
            for first in (0, 3, 5, 1):
                x = new(12, 4)[first : first + 6]
                results, wanted = compiled(x), function(x)
                for result, other in zip(results, wanted):
                    self.assertEqual(result, other, **EXACT)
                    self.assertEqual(result.storage_offset(), other.storage_offset())
                x.mul_(2)  # which the views of it follow
                self.assertEqual(results[0], x[None], **EXACT)
        (report,) = reports("forward" if gradients else "inference")
        self.assertGreaterEqual(report["replays"], 2)

    def test_views_of_an_argument_with_other_memory(self):
        """The argument is itself a view."""
        function = lambda x: (x.view(1, *x.shape), x * 2)  # noqa: E731
        compiled = torch.compile(function, backend="mpsgraphs", dynamic=True)
        parts = new(3, 4, 5)
        x = parts[0]
        for data in (parts[0], parts[2], new(4, 5)):
            x.data = data
            self.assertEqual(compiled(x), function(x), **EXACT)

    def test_caught_error_of_eager(self):
        """A cache of keys that is written by an operator without a kernel or, where that raises, by indexing."""

        def write(cache, position, keys):
            try:
                cache.index_copy_(0, position, keys)
            except NotImplementedError:
                cache[position] = keys
            return cache * 2

        compiled = torch.compile(write, backend="mpsgraphs")
        caches = [torch.zeros(5, 2, device="mps") for _ in range(2)]
        with torch.no_grad():
            for i in (3, 0, 4):
                position, keys = torch.tensor([i], device="mps"), new(1, 2)
                results = [
                    function(cache, position, keys)
                    for function, cache in zip((compiled, write), caches)
                ]
                self.assertEqual(*results, **EXACT)
                self.assertEqual(*caches, **EXACT)
        (report,) = reports()
        self.assertEqual((report["captures"], report["replays"]), (1, 2))

    def test_results_are_not_overwritten(self):
        compiled = torch.compile(lambda x: x + 1, backend="mpsgraphs")
        inputs = [new(4) for _ in range(3)]
        results = [compiled(x) for x in inputs]
        self.assertEqual(results, [x + 1 for x in inputs], **EXACT)

    def test_inputs_are_written_back(self):
        def function(x, total):
            total.add_(x)
            x.mul_(2)
            return total * 2

        self.check(function, (4,), (4,))

    def test_buffers(self):
        model = nn.BatchNorm1d(4).to("mps")
        other = copy.deepcopy(model)
        compiled = torch.compile(model, backend="mpsgraphs")
        with torch.no_grad():
            for _ in range(4):
                self.compare(compiled, other, new(8, 4))
        self.assertEqual(model.state_dict(), other.state_dict(), **EXACT)
        (report,) = reports()
        self.assertEqual(report["replays"], 3)

    def test_transposed_and_expanded_inputs(self):
        compiled = torch.compile(lambda x, y: x @ y + 1, backend="mpsgraphs")
        for _ in range(3):
            x, y = new(3, 4).T, new(3, 1).expand(3, 5)
            self.assertEqual(compiled(x, y), x @ y + 1, **EXACT)

    def test_cpu_tensors_and_numbers(self):
        def function(x, host, number):
            return x * host + number, host * 2

        compiled = torch.compile(function, backend="mpsgraphs")
        for i in range(4):
            x, host = new(4), torch.tensor(float(i))
            self.assertEqual(compiled(x, host, 3.5), function(x, host, 3.5), **EXACT)
        self.assertEqual(reports()[0]["pieces"], [1])
        self.assertEqual(reports()[0]["replays"], 3)

    def test_nothing_for_the_device(self):
        compiled = torch.compile(lambda x: x + 1, backend="mpsgraphs")
        for i in range(3):
            x = torch.full((3,), float(i))
            self.assertEqual(compiled(x), x + 1)
        self.assertEqual(reports()[0]["captures"], 0)
        self.assertEqual(reports()[0]["eager_calls"], 0)

    @parametrize("what", ["dropout", "randn", "bernoulli", "feature_dropout"])
    def test_random(self, what):
        functions = {
            "dropout": lambda x: F.dropout(x, 0.3) + 1,
            "randn": lambda x: torch.randn_like(x) * x,
            "bernoulli": lambda x: x.sigmoid().bernoulli(),
            "feature_dropout": lambda x: F.dropout2d(x, 0.5),
        }
        function = functions[what]
        compiled = torch.compile(function, backend="mpsgraphs")
        inputs = [new(4, 5, 3, 2) for _ in range(4)]
        torch.manual_seed(3)
        expected = [function(x) for x in inputs]
        torch.manual_seed(3)
        self.assertEqual([compiled(x) for x in inputs], expected, **EXACT)
        self.assertEqual(reports()[0]["replays"], 3)

    def test_inference_mode(self):
        model = nn.Linear(4, 4).to("mps")
        compiled = torch.compile(model, backend="mpsgraphs")
        for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
            with mode():
                for _ in range(3):
                    x = new(2, 4)
                    y = compiled(x)
                    self.assertEqual(y, model(x), **EXACT)
                    self.assertEqual(y.is_inference(), mode is torch.inference_mode)

    def test_autocast(self):
        model = nn.Linear(4, 4).to("mps")
        compiled = torch.compile(model, backend="mpsgraphs")
        with torch.no_grad(), torch.autocast("mps", torch.float16):
            for _ in range(3):
                x = new(2, 4)
                y = compiled(x)
                self.assertEqual(y.dtype, torch.float16)
                self.assertEqual(y, model(x), **EXACT)

    def test_autocast_that_a_part_turns_off(self):
        """The trace has the casts, so that autocast may not add others."""
        layer = nn.Linear(4, 4).to("mps")

        def function(x):
            with torch.autocast("mps", enabled=False):
                return layer(x)

        with torch.no_grad(), torch.autocast("mps", torch.float16):
            self.check(function, (2, 4))

    @parametrize("copy_outputs", [True, False])
    def test_results_that_share_memory(self, copy_outputs):
        """They are views of a tensor that is no result itself."""

        def function(x):
            y, (values, indices) = x.sin(), x.max(0)
            return y[1:], y[:2].T, y.split(1), values[1:], values[:3], indices

        compiled = torch.compile(
            function, backend="mpsgraphs", options={"copy_outputs": copy_outputs}
        )
        calls = []
        for _ in range(3):
            x = new(3, 4)
            calls.append((compiled(x), function(x)))
            for y, *parts in calls[-1]:
                y.add_(1)
                parts[2].mul_(3)
        for results, wanted in calls if copy_outputs else calls[-1:]:
            self.assertEqual(results, wanted, exact_stride=True, **EXACT)
        self.assertEqual(reports()[0]["replays"], 2)


class Swapped(WrapperSubclass):
    """A tensor with sines and cosines the other way round."""

    @staticmethod
    def __tensor_unflatten__(inner, meta, outer_size, outer_stride):
        return Swapped(inner["a"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        sin, cos = torch.ops.aten.sin.default, torch.ops.aten.cos.default
        func = {sin: cos, cos: sin}.get(func, func)
        args = [x.a if isinstance(x, Swapped) else x for x in args]
        return Swapped(func(*args, **(kwargs or {})))


class TestAroundCalls(CompileTestCase):
    """AOTAutograd changes calls and results of these functions."""

    def test_versions_of_buffers(self):
        model = nn.BatchNorm1d(4).to("mps")
        compiled = torch.compile(model, backend="mpsgraphs")
        with torch.no_grad():
            for _ in range(3):
                before = model.running_mean._version
                compiled(new(8, 4))
                self.assertGreater(model.running_mean._version, before)

    def test_arguments_that_share_memory(self):
        def function(x, y):
            x.add_(1)
            y.mul_(2)
            return x + y

        compiled = torch.compile(function, backend="mpsgraphs")
        with torch.no_grad():
            for _ in range(3):
                base = new(5)
                other = base.clone()
                self.compare(
                    lambda x: compiled(x[:4], x[1:]),
                    lambda _: function(other[:4], other[1:]),
                    base,
                )
                self.assertEqual(base, other, **EXACT)

    def test_part_of_an_argument(self):
        compiled = torch.compile(lambda x: (x[1:], x + 1), backend="mpsgraphs")
        x = new(4)
        for _ in range(3):
            part, _ = compiled(x)
            self.assertIs(part._base, x)

    def test_grad_mode(self):
        def function(x):
            y = x + 1
            torch.set_grad_enabled(False)
            return y

        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(3):
            with torch.enable_grad():
                compiled(new(3))
                self.assertFalse(torch.is_grad_enabled())

    def test_subclass(self):
        compiled = torch.compile(torch.sin, backend="mpsgraphs")
        for _ in range(3):
            x = new(3)
            y = compiled(Swapped(x))
            self.assertIsInstance(y, Swapped)
            self.assertEqual(y.a, x.cos(), **EXACT)

    def test_compiled_autograd(self):
        """The arguments are in lists."""
        for count in range(1, 7):
            leaves = [new(4, requires_grad=True) for _ in range(count)]
            for _ in range(3):
                for x in leaves:
                    x.grad = None
                backend = torch.compile(backend="mpsgraphs")
                with torch._dynamo.compiled_autograd._enable(backend):
                    sum(x.sin().sum() for x in leaves).backward()
                for x in leaves:
                    self.assertEqual(x.grad, x.cos(), **EXACT)


class TestSplits(CompileTestCase):
    def check_split(self, function, operator, pieces, words):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = self.check(function, (4,), pieces=pieces)
        told = [str(w.message) for w in caught if "mpsgraphs" in str(w.message)]
        self.assertEqual(len(told), 1, told)
        self.assertIn(operator, told[0])
        (split,) = report["splits"]
        self.assertIn(operator, split["operator"])
        self.assertIn(words, split["reason"])
        self.assertIn("test_mps_graph_compile.py", split["line"])

    def test_host_read(self):
        def function(x):
            y = read(x.sin())
            return y.cos() * x

        self.check_split(function, "mpsgraphs_test.read", (2,), "host read")

    def test_first_and_last(self):
        self.check_split(lambda x: read(x), "mpsgraphs_test.read", (0,), "host read")

    def test_refused_at_the_end(self):
        """What was written until then is undone."""

        def function(x, total):
            total.add_(x)
            return move(total.sin()).cos()

        compiled = torch.compile(function, backend="mpsgraphs")
        total = torch.zeros(4, device="mps")
        expected = total.clone()
        for _ in range(4):
            moving["tensor"] = torch.ones(4, device="mps")
            x = new(4)
            y = compiled(x, total)
            expected += x
            self.assertEqual(total, expected, **EXACT)
            self.assertEqual(y, (total.sin() * 4).cos(), **EXACT)
        (report,) = reports()
        self.assertEqual(report["pieces"], [2])
        self.assertIn("mpsgraphs_test.move", report["splits"][0]["operator"])

    def test_written_before_the_split(self):
        def function(x, total):
            total.add_(x)
            return read(total)

        self.check(function, (4,), (4,), pieces=(2,))

    def test_drawn_before_the_split(self):
        """What a refused attempt has drawn is drawn again."""

        def function(x):
            return read(torch.rand_like(x) + x) * torch.rand_like(x)

        compiled = torch.compile(function, backend="mpsgraphs")
        inputs = [new(4) for _ in range(4)]
        torch.manual_seed(3)
        expected = [function(x) for x in inputs]
        torch.manual_seed(3)
        self.assertEqual([compiled(x) for x in inputs], expected, **EXACT)
        self.assertEqual(reports()[0]["replays"], 3)

    def test_computed_by_the_host(self):
        def function(x):
            y = x.sin()
            z = y.cpu() * 2
            return z.to("mps") + y

        self.check(function, (4,), pieces=(2,))

    def test_number_that_the_host_reads(self):
        """A call whose number is another one than the capture's goes on eagerly from there."""

        def function(x):
            y, z = x.sin(), x.cos()
            number = x.argmax().item()
            return z.exp() * number + y

        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            compiled = torch.compile(function, backend="mpsgraphs")
            same = new(4)
            for x in (same, new(4), same.flip(0), same, new(4)):
                self.assertEqual(compiled(x), function(x), **EXACT)
        (report,) = reports()
        self.assertEqual((report["pieces"], report["captures"]), ([2], 1))
        self.assertGreaterEqual(report["eager_calls"], 2)

    def test_error_of_the_operator(self):
        """An error is eager's, and the next call goes on."""

        def function(x, index):
            return x.sin()[index]

        compiled = torch.compile(function, backend="mpsgraphs")
        x = new(4)
        for at in (1, 2, 3):
            index = torch.tensor([at], device="mps")
            self.assertEqual(compiled(x, index), function(x, index), **EXACT)


class TestShapes(CompileTestCase):
    def test_each_has_a_graph(self):
        def function(x):
            return x.softmax(-1) @ x.T

        compiled = torch.compile(function, backend="mpsgraphs", dynamic=True)
        for size in (3, 4, 5, 3, 4, 5):
            self.compare(compiled, function, new(size, 4))
        (report,) = reports()
        self.assertEqual((report["captures"], report["replays"]), (3, 3))

    @parametrize("dynamic", [True, None])
    def test_attention(self, dynamic):
        compiled = torch.compile(
            lambda q, k: F.scaled_dot_product_attention(q, k, k),
            backend="mpsgraphs",
            dynamic=dynamic,
        )
        with torch.no_grad():
            for size in (16, 12, 12, 10, 10):
                q, k = new(2, 4, 8, 8), new(2, 4, size, 8)
                wanted = F.scaled_dot_product_attention(q, k, k)
                self.assertEqual(compiled(q, k), wanted, **EXACT)
        counts = [sum(r[kind] for r in reports()) for kind in ("captures", "replays")]
        self.assertEqual(counts, [3, 2])

    @staticmethod
    def double():
        return torch.compile(
            lambda x: x * 2,
            backend="mpsgraphs",
            dynamic=True,
            options={"max_graphs": 2},
        )

    def test_limit(self):
        compiled = self.double()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for size in (3, 4, 5, 6, 3, 7):
                x = new(size)
                self.assertEqual(compiled(x), x * 2, **EXACT)
        told = [w for w in caught if "max_graphs" in str(w.message)]
        self.assertEqual(len(told), 1)
        (report,) = reports()
        self.assertEqual(
            (report["captures"], report["replays"], report["eager_calls"]), (2, 1, 3)
        )

    def test_a_frequent_shape_wins(self):
        """It takes the place of the graph that was not used for longest, and shapes in turn take none."""
        compiled = self.double()

        def call(*sizes):
            for size in sizes:
                x = new(size)
                self.compare(compiled, lambda x: x * 2, x)
            (report,) = reports()
            return report["captures"], report["replays"], report["graphs"]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(call(3, 4, 5, 3, 4, 5, 3, 4), (2, 4, 2))
            self.assertEqual(call(9, 9, 9, 9), (3, 6, 2))
            self.assertEqual(call(4, 9, 4), (3, 9, 2))

    def test_dtype_of_a_parameter(self):
        """Dynamo does not guard it while the parameter is the same."""
        layer = nn.Linear(4, 4).to("mps")
        compiled = torch.compile(
            lambda x: F.linear(x.to(layer.weight.dtype), layer.weight),
            backend="mpsgraphs",
        )
        x = new(2, 4)
        with torch.no_grad():
            compiled(x)
            layer.half()
            try:
                y = compiled(x)
            except RuntimeError as error:
                self.assertRegex(
                    str(error), "and torch.float32, which has .* and torch.float16 now"
                )
                torch._dynamo.reset()
                y = compiled(x)
            self.assertEqual(y, F.linear(x.half(), layer.weight), **EXACT)

    @parametrize("copy_outputs", [True, False])
    def test_a_size_that_grows(self, copy_outputs):
        """Beyond the limit, only operators whose sizes vary run eagerly, as with a cache that grows."""
        weight = new(4, 4)

        def function(x, cache, row):
            y = (x @ weight).relu()
            share = (cache @ y.T).softmax(0)
            row.add_(y[0])
            cache.mul_(cache.shape[0])
            read = (share.T @ cache).sin() @ weight
            return read, torch.cat([cache, y]), read.sum() * cache.shape[0]

        compiled = torch.compile(
            function,
            backend="mpsgraphs",
            options={"max_graphs": 2, "copy_outputs": copy_outputs},
        )
        with torch.no_grad():
            for size in (3, 4, 5, 6, 7, 8, 4, 9, 7):
                x, cache, row = new(2, 4), new(size, 4), new(4)
                given = (x, cache.clone(), row.clone())
                wanted = function(*given)
                results = compiled(x, cache, row)
                self.assertEqual(results, wanted, **EXACT)
                self.assertEqual((x, cache, row), given, **EXACT)
                for result in results:
                    result.fill_(7)
        report = reports()[-1]
        self.assertEqual((report["captures"], report["replays"]), (3, 5))
        self.assertEqual(report["eager_calls"], 0)
        names = {split["operator"] for split in report["splits"]}
        self.assertIn("aten.cat.default", names)
        self.assertNotIn("aten.sin.default", names)

    def test_strides(self):
        compiled = torch.compile(lambda x: x * 2 + 1, backend="mpsgraphs")
        for x in (new(3, 4), new(4, 3).T, new(3, 4)):
            y = compiled(x)
            self.assertEqual(y, x * 2 + 1, **EXACT)
            self.assertEqual(y.stride(), (x * 2).stride())

    def test_shape_of_a_parameter(self):
        """Dynamo does not guard it while the parameter is the same, but the trace may hold numbers of it."""

        class Mean(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(new(4, 4))

            def forward(self, x):
                return x * self.weight.sum() / self.weight.numel()

        module = Mean()
        compiled = torch.compile(module, backend="mpsgraphs")
        with torch.no_grad():
            x = new(3)
            for _ in range(2):
                self.compare(compiled, module, x.normal_())
            module.weight.data = new(2, 4)
            try:
                y = compiled(x)  # releases after 2.6 trace it again
            except RuntimeError as error:
                self.assertRegex(
                    str(error),
                    r"shape \[4, 4\] and torch.float32, which has shape \[2, 4\] and torch.float32 now",
                )
                self.assertIn(
                    "now. Dynamo does not notice such a change in place; call torch._dynamo.reset() after it.",
                    str(error),
                )
                torch._dynamo.reset()
                y = compiled(x)
            self.assertEqual(y, module(x), **EXACT)


class TestPaddedBatches(CompileTestCase):
    OPTIONS = {"pad_batch": True}

    def compiled(self, function, dynamic=True, **options):
        return torch.compile(
            function,
            backend="mpsgraphs",
            dynamic=dynamic,
            options={**self.OPTIONS, **options},
        )

    @parametrize("copy_outputs", [True, False])
    def test_sizes(self, copy_outputs):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = nn.Sequential(nn.Embedding(20, 8), layer).to("mps").eval()

        def function(tokens, x):
            y = model(tokens)
            rows = torch.arange(len(x), device="mps")
            return y, {"parts": y.mean(1).split(4, -1), "x": torch.cat([x, x], 1)}, rows

        compiled = self.compiled(function, copy_outputs=copy_outputs)
        with torch.no_grad():
            for size in (64, *range(2, 65, 7), 3, 64, 2, 31):
                tokens = torch.randint(20, (size, 5), device="mps")
                x = new(size, 3)
                self.assertEqual(compiled(tokens, x), function(tokens, x))
        (report,) = reports()
        self.assertEqual(report["not_padded"], "")
        self.assertEqual((report["captures"], report["eager_calls"]), (5, 0))

    def test_after_other_batches(self):
        """What is left in the rows of the padding is not read, and results stay as they are."""
        compiled = self.compiled(lambda x: x.softmax(-1) * 2)
        results = []
        for size, value in ((7, float("nan")), (5, 1.0), (6, float("inf")), (5, 2.0)):
            x = torch.full((size, 3), value, device="mps")
            results.append((compiled(x), x.softmax(-1) * 2))
        for result, wanted in results:
            self.assertEqual(result, wanted, exact_stride=True, **EXACT)

    @parametrize(
        "name,reason",
        [
            ("mean", "aten.mean.dim reduces the batch"),
            ("softmax", "aten._softmax.default works along the batch"),
            ("cumsum", "aten.cumsum.default works along the batch"),
            ("flip", "aten.flip.default works along the batch"),
            ("roll", "aten.roll.default works along the batch"),
            ("read", "mpsgraphs_test.read.default may do anything with the batch"),
            ("products", "combines rows with rows"),
            ("half", "aten.slice.Tensor takes a part of the batch"),
            ("size", "computes with the size of the batch"),
            ("random", "draws a number of random numbers"),
            ("batch_norm", "reduces the batch"),
            ("transposed", "the batch is not the first dimension of"),
            ("written", "it writes to its arguments"),
            ("view", "returns views of them"),
            ("constant", "no argument has a first dimension that varies"),
            ("flattened", "aten.cumsum.default works along the batch"),
            ("share", "aten.mul.Tensor computes with the size of the batch"),
            ("filled", "aten.new_full.default computes with the size of the batch"),
            ("bound", "aten.clamp.default computes with the size of the batch"),
            (
                "parity",
                "aten.scalar_tensor.default computes with the size of the batch",
            ),
            ("moved", "combines rows with rows"),
            ("moved_part", "rows"),
            ("repeated", "aten.repeat.default works along the batch"),
            ("joined", "aten.cat.default works along the batch"),
            ("pooled", "aten.max_pool2d_with_indices.default works along the batch"),
            ("convolved", "aten.convolution.default works along the batch"),
            ("normed", "aten.renorm.default is not known to work row by row"),
            ("last_row", "aten.index.Tensor works along the batch"),
        ],
    )
    def test_why_not(self, name, reason):
        def written(x):
            x.mul_(2)
            return x + 1

        functions = {
            "mean": lambda x: x - x.mean(0),
            "softmax": lambda x: x.softmax(0),
            "cumsum": lambda x: x.cumsum(dim=-2),
            "flip": lambda x: x.flip(0),
            "roll": lambda x: x.roll(1),
            "read": read,
            "products": lambda x: (x @ x.T) @ x,
            "half": lambda x: torch.cat([x[1:], x[:1]]),
            "size": lambda x: x / x.size(0),
            "random": lambda x: torch.randn_like(x) + x,
            "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
            "transposed": lambda x: x.T * 2,
            "written": written,
            "view": lambda x: (x[:, 1:], x + 1),
            "constant": lambda x: x * 2,
            "flattened": lambda x: x.view(-1).cumsum(0).view(x.shape),
            "share": lambda x: x * (1 / x.shape[0]),
            "filled": lambda x: x + x.new_full((x.shape[0], 1), float(x.shape[0])),
            "bound": lambda x: (x * 9).clamp(max=float(x.shape[0])),
            "parity": lambda x: torch.where(
                torch.tensor(x.shape[0] % 2 == 0, device="mps"), x, -x
            ),
            "moved": lambda x: x.t().reshape(len(x), 8),
            "moved_part": lambda x: x.view(-1, 2, 4).transpose(0, 1).reshape(-1, 8),
            "repeated": lambda x: x.repeat(2, 1).reshape(len(x), 16),
            "joined": lambda x: torch.cat([x, x + 1]).view(len(x), 16),
            "pooled": lambda x: F.max_pool2d((x - 9)[None, None], 3, 1, 1)[0, 0],
            "convolved": lambda x: F.conv2d(
                (x + 1)[None, None], torch.ones(1, 1, 3, 3, device="mps"), padding=1
            )[0, 0],
            "normed": lambda x: (x + 1).renorm(2, 1, 1.0),
            "last_row": lambda x: x[torch.zeros_like(x[:, 0], dtype=torch.long) - 1],
        }
        function = functions[name]
        compiled = self.compiled(function, dynamic=name != "constant")
        for size in (6, 6, 6) if name == "constant" else (4, 6, 5):
            x = new(size, 8)
            y = x.clone()
            torch.manual_seed(1)
            result = compiled(x)
            torch.manual_seed(1)
            self.assertEqual(result, function(y), **EXACT)
            self.assertEqual(x, y, **EXACT)
        self.assertIn(reason, reports()[0]["not_padded"])

    def test_training(self):
        compiled = self.compiled(lambda x: x.sin() * 2)
        for size in (3, 5):
            x = new(size, requires_grad=True)
            compiled(x).sum().backward()
            self.assertEqual(x.grad, 2 * x.cos(), **EXACT)
        reason = "gradients would count the padding"
        self.assertEqual(reports("forward")[0]["not_padded"], reason)

    def test_in_a_capture(self):
        compiled = self.compiled(lambda x: x.sin() + 1)
        compiled(new(5, 2))
        x = new(3, 2)
        with torch.mps.graph_capture() as graph:
            y = compiled(x)
        self.compare_replays(graph, x, y, lambda x: x.sin() + 1)


class TestMemory(CompileTestCase):
    def test_replaced_weights(self):
        """Loaded, given other memory, or replaced."""
        model = nn.Linear(4, 4).to("mps")
        compiled = torch.compile(model, backend="mpsgraphs")

        def move():
            model.weight.data = new(4, 4)

        def load(assign):
            state = {"weight": new(4, 4), "bias": new(4)}
            model.load_state_dict(state, assign=assign)

        with torch.no_grad():
            for assign in (None, False, None, True, True, None):
                self.compare(compiled, model, new(2, 4))
                move() if assign is None else load(assign)
                self.compare(compiled, model, new(2, 4))

    def test_graphs_of_weights_that_are_gone(self):
        """They make room for others."""
        compiled = torch.compile(
            lambda x, w: x @ w, backend="mpsgraphs", options={"max_graphs": 2}
        )
        for _ in range(5):
            weight = new(4, 4)
            torch._dynamo.mark_static_address(weight, guard=False)
            for _ in range(2):
                x = new(2, 4)
                self.assertEqual(compiled(x, weight), x @ weight, **EXACT)
            del weight
            gc.collect()

    def test_reset_gives_all_back(self):
        gc.collect()
        torch.mps.synchronize()
        before = torch.mps.current_allocated_memory()
        model = nn.Linear(512, 512).to("mps")
        compiled = torch.compile(model, backend="mpsgraphs")
        for _ in range(3):
            compiled(new(512, 512)).sum().backward()
        self.assertEqual(len(reports()), 2)
        del model, compiled
        torch._dynamo.reset()
        self.assertEqual(reports(), [])
        gc.collect()
        # completion handlers free memory, in order; the wait includes this number's, which is the last
        torch.ones(1, device="mps").add(1.0, alpha=2.0)
        torch.mps.synchronize()
        torch.mps.empty_cache()
        self.assertLessEqual(torch.mps.current_allocated_memory(), before)

    def test_results_in_memory_of_the_graph(self):
        compiled = torch.compile(
            lambda x: x * 2, backend="mpsgraphs", options={"copy_outputs": False}
        )
        first = compiled(torch.ones(3, device="mps"))
        self.assertEqual(first.tolist(), [2, 2, 2])
        first.fill_(93)
        second = compiled(torch.full((3,), 2.0, device="mps"))
        self.assertEqual(second.tolist(), [4, 4, 4])
        with self.assertRaisesRegex(RuntimeError, "valid until the next call"):
            first + 1

    def test_results_of_training_in_memory_of_the_graph(self):
        """Gradients are copied all the same, and a result that lives does not make another graph."""
        model = nn.Linear(3, 3).to("mps")
        compiled = torch.compile(
            model, backend="mpsgraphs", options={"copy_outputs": False}
        )
        grads, kept = [], []
        for _ in range(3):
            model.zero_grad()
            x = new(2, 3)
            kept.append(compiled(x))
            kept[-1].sum().backward()
            grads.append(model.weight.grad)
            self.assertEqual(grads[-1][0], x.sum(0))
        self.assertEqual(grads[0][0].shape, (3,))
        self.assertEqual(reports("forward")[0]["captures"], 1)
        with self.assertRaisesRegex(RuntimeError, "valid until the next call"):
            kept[0] + 1

    def test_fixed_inputs_are_not_copied(self):
        x = torch.ones(3, device="mps")
        torch._dynamo.mark_static_address(x)
        compiled = torch.compile(lambda x: x * 2, backend="mpsgraphs")
        for i in range(3):
            x.fill_(i)
            self.assertEqual(compiled(x).tolist(), [2 * i] * 3)
        self.assertEqual(reports()[0]["replays"], 2)


class TestTraining(CompileTestCase):
    def test_number_that_varies(self):
        """Such as the weight of a loss, which changes in each step."""
        layers = [nn.Linear(4, 4).to("mps")]
        layers.append(copy.deepcopy(layers[0]))
        compiled = torch.compile(lambda x, s: layers[0](x) * s, backend="mpsgraphs")
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for i in range(5):
                x = new(2, 4)
                results = compiled(x, 0.5 + i), layers[1](x) * (0.5 + i)
                self.assertEqual(*results, **EXACT)
                for result in results:
                    result.square().sum().backward()
                self.assertEqual(layers[0].weight.grad, layers[1].weight.grad, **EXACT)
        self.assertGreater(sum(r["replays"] for r in reports()), 3)

    def models(self, *layers):
        eager = nn.Sequential(*layers).to("mps")
        model = copy.deepcopy(eager)
        return eager, model, torch.compile(model, backend="mpsgraphs")

    def test_steps(self):
        eager, model, compiled = self.models(
            nn.Linear(4, 8),
            nn.BatchNorm1d(8),
            nn.Dropout(0.3),
            nn.Tanh(),
            nn.Linear(8, 2),
        )
        runs = [
            (module, torch.optim.Adam(owner.parameters(), 0.1))
            for module, owner in ((eager, eager), (compiled, model))
        ]
        for step in range(6):
            x, target = new(5, 4), new(5, 2)
            losses = []
            for module, optimizer in runs:
                torch.manual_seed(step)
                optimizer.zero_grad()
                loss = F.mse_loss(module(x), target)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            self.assertEqual(losses[0], losses[1], **EXACT)
            self.assertEqual(eager.state_dict(), model.state_dict(), **EXACT)
        for part in ("forward", "backward"):
            (report,) = reports(part)
            self.assertEqual((report["captures"], report["replays"]), (1, 5))

    def test_saved_tensor_of_another_shape(self):
        """On this device logsigmoid() saves an empty tensor, and tracing believes in a full one."""
        compiled = torch.compile(lambda x: F.logsigmoid(x) * 2, backend="mpsgraphs")
        for _ in range(3):
            x = new(2, 3, requires_grad=True)
            compiled(x).sum().backward()
            grad, x.grad = x.grad, None
            (F.logsigmoid(x) * 2).sum().backward()
            self.assertEqual(grad, x.grad, **EXACT)
        self.assertEqual(reports("backward")[0]["replays"], 2)

    @parametrize("calls,max_graphs", [(3, 8), (4, 2)])
    def test_several_calls_before_the_backward_pass(self, calls, max_graphs):
        """Also more calls than there may be graphs."""
        eager, model, _ = self.models(nn.Linear(4, 4), nn.Tanh())
        options = {"max_graphs": max_graphs}
        compiled = torch.compile(model, backend="mpsgraphs", options=options)
        for _ in range(3):
            inputs = [new(2, 4) for _ in range(calls)]
            for module in (eager, compiled):
                sum(module(x).square().sum() for x in inputs).backward()
            for one, other in zip(eager.parameters(), model.parameters()):
                self.assertEqual(one.grad, other.grad, **EXACT)

    def test_gradients_of_inputs(self):
        compiled = torch.compile(lambda x, y: (x.sin() * y).exp(), backend="mpsgraphs")
        for _ in range(4):
            x, y = new(3), new(3)
            grads = []
            for function in (compiled, lambda x, y: (x.sin() * y).exp()):
                inputs = [t.clone().requires_grad_() for t in (x, y)]
                function(*inputs).sum().backward()
                grads.append([t.grad for t in inputs])
            self.assertEqual(grads[0], grads[1], **EXACT)
        self.assertEqual(reports("backward")[0]["replays"], 3)

    def test_gradients_are_not_overwritten(self):
        compiled = torch.compile(lambda x: x.sin(), backend="mpsgraphs")
        inputs = [new(3, requires_grad=True) for _ in range(3)]
        for x in inputs:
            compiled(x).sum().backward()
        self.assertEqual([x.grad for x in inputs], [x.detach().cos() for x in inputs])

    def test_retained(self):
        compiled = torch.compile(lambda x: x.sin() * x, backend="mpsgraphs")
        for _ in range(3):
            x = new(3, requires_grad=True)
            y = compiled(x)
            y.sum().backward(retain_graph=True)
            first, x.grad = x.grad, None
            compiled(new(3, requires_grad=True)).sum().backward()
            y.sum().backward()
            self.assertEqual(x.grad, first, **EXACT)

    def test_split_forward(self):
        @torch.library.custom_op("mpsgraphs_test::read_in_training", mutates_args=())
        def function(x: torch.Tensor) -> torch.Tensor:
            return x * float(x.sum())

        function.register_fake(lambda x: torch.empty_like(x))

        def setup(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return read(grad) + x

        function.register_autograd(backward, setup_context=setup)

        def whole(x):
            return function(x.sin()).cos()

        compiled = torch.compile(whole, backend="mpsgraphs")
        for _ in range(4):
            x = new(4)
            grads = []
            for one in (whole, compiled):
                leaf = x.clone().requires_grad_()
                one(leaf).sum().backward()
                grads.append(leaf.grad)
            self.assertEqual(grads[0], grads[1], **EXACT)
        for part in ("forward", "backward"):
            (report,) = reports(part)
            self.assertEqual((report["pieces"], report["replays"]), ([2], 3))


class TestOrder(CompileTestCase):
    """Live results are safe, whatever the order of use."""

    def make_pair(self, dynamic=None, **options):
        model = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)
        ).to("mps")
        self.eager, self.model = copy.deepcopy(model), model
        compiled = torch.compile(
            model, backend="mpsgraphs", dynamic=dynamic, options=options
        )
        return compiled, self.eager

    def assert_same_state(self):
        for one, other in zip(self.model.parameters(), self.eager.parameters()):
            self.assertEqual(one.grad, other.grad, **EXACT)
        states = (m.state_dict() for m in (self.model, self.eager))
        self.assertEqual(*states, **EXACT)

    def test_first_backward_pass_first(self):
        pair = self.make_pair()
        inputs = [new(5, 4) for _ in range(3)]
        for module in pair:
            module(inputs[0]).sum().backward()
            module.zero_grad()
            results = [module(x).square() for x in inputs[1:]]
            results[0].sum().backward()
            module.zero_grad()
            results[1].sum().backward()
        self.assert_same_state()

    @parametrize("dynamic", [None, True])
    def test_one_forward_one_backward(self, dynamic):
        """As a pipeline runs; two graphs of each part and shape are enough."""
        pair = self.make_pair(dynamic)
        sizes = (5, 6, 7, 5, 6, 5, 7, 6, 5) if dynamic else (5,) * 9
        inputs = [new(size, 4) for size in sizes]
        for module in pair:
            module(inputs[0]).sum().backward()
            pending = [module(inputs[0])]
            for x in inputs[1:]:
                pending.append(module(x))
                pending.pop(0).square().sum().backward()
        self.assert_same_state()
        if not dynamic:
            for part in ("forward", "backward"):
                (report,) = reports(part)
                self.assertEqual((report["captures"], report["eager_calls"]), (2, 0))

    def test_many_pending(self):
        """Random orders, with more forward passes pending than there may be graphs."""
        pair = self.make_pair(max_graphs=3)
        generator = random.Random(0)
        order = [generator.random() for _ in range(60)]
        inputs = [new(5, 4) for _ in order]
        for module in pair:
            pending = []
            for x, number in zip(inputs, order):
                if pending and number < 0.5:
                    which = int(2 * number * len(pending))
                    pending.pop(which).square().sum().backward()
                else:
                    pending.append(module(x))
        self.assert_same_state()

    def test_outer_graph(self):
        pair = self.make_pair()
        static = new(5, 4)
        for module in pair:
            module(static).sum().backward()
        outer = torch.mps.MPSGraph()
        with torch.mps.graph(outer):
            y = pair[0](static).detach()
        pair[1](static)
        results = [module(x) for x in [new(5, 4)] for module in pair]
        static.copy_(new(5, 4)), y.fill_(93)
        outer.replay()
        self.assertEqual(y, pair[1](static), **EXACT)
        for result in results:
            result.square().sum().backward()
        self.assert_same_state()

    def test_backward_pass_in_a_later_capture(self):
        compiled, _ = self.make_pair()
        for _ in range(2):
            loss = compiled(new(5, 4)).sum()
            loss.backward(retain_graph=True)
        with self.assertRaises(RuntimeError) as raised:
            with torch.mps.graph(torch.mps.MPSGraph()):
                loss.backward()
        self.assertIn(
            "can't be captured, since its forward pass ran before the capture and later calls overwrite its "
            "activations. Call the function in the capture, too.",
            str(raised.exception),
        )

    FUNCTIONS = {
        "input": lambda x: x.sin() * x,
        "result": lambda x: x.exp(),
        "activation": lambda x: (x * 2).exp().tanh(),
    }

    @parametrize("saved", sorted(FUNCTIONS))
    def test_second_order_gradients_raise(self, saved):
        """Also where AOTAutograd itself would drop them."""
        compiled = torch.compile(self.FUNCTIONS[saved], backend="mpsgraphs")
        for _ in range(3):
            x = new(4, requires_grad=True)
            (grad,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
            with self.assertRaisesRegex(RuntimeError, "support double backward"):
                (x.sum() + grad.square().sum()).backward()
            # autograd would take a missing path for zeros
            with self.assertRaisesRegex(RuntimeError, "support double backward"):
                torch.autograd.functional.hessian(lambda x: compiled(x).sum(), x)

    def test_frozen_inputs_stay_frozen(self):
        weight, x = new(4), new(4, requires_grad=True)
        compiled = torch.compile(lambda x, w: x * w, backend="mpsgraphs")
        for _ in range(3):
            compiled(x, weight).sum().backward()
            self.assertFalse(weight.requires_grad)

    VIEWS = {
        "result": lambda y: y,
        "row": lambda y: y[0],
        "detached": lambda y: y.detach(),
    }

    @parametrize("view", sorted(VIEWS))
    def test_results_of_other_calls(self, view):
        """Without copies of results they hold what they held, or raise."""

        def function(x):
            return (
                x.sin() * 2 + 1
            )  # the result lies where another shape has a temporary

        compiled = torch.compile(
            function,
            backend="mpsgraphs",
            dynamic=True,
            options={"copy_outputs": False},
        )
        kept, raised = [], 0
        for size in (3, 4, 5, 3, 4, 5, 4, 3):
            x = new(size, 4)
            kept.append((self.VIEWS[view](compiled(x)), self.VIEWS[view](function(x))))
            self.assertEqual(*kept[-1], **EXACT)
            for y, expected in kept:
                try:
                    self.assertEqual(y, expected, **EXACT)
                except RuntimeError as error:
                    self.assertIn("valid until the next call", str(error))
                    raised += 1
        self.assertGreater(raised, 0)

    def test_results_of_other_threads(self):
        """Without copies of results, a call takes none from another thread."""

        def function(x):
            return (x.sin() * 2 + 1) @ x

        compiled = torch.compile(
            function, backend="mpsgraphs", options={"copy_outputs": False}
        )
        compiled(new(16, 16))
        for _ in range(3):
            inputs = [new(16, 16) for _ in range(3)]
            results = [compiled(inputs[0])]
            for x in inputs[1:]:
                call = threading.Thread(target=lambda: results.append(compiled(x)))
                call.start()
                call.join()
            self.assertEqual(results, [function(x) for x in inputs], **EXACT)
            results.clear()

    def test_result_that_is_the_next_input(self):
        compiled = torch.compile(
            lambda x: x * 2 + 1, backend="mpsgraphs", options={"copy_outputs": False}
        )
        y = expected = torch.ones(3, device="mps")
        for _ in range(4):
            y, expected = compiled(y), expected * 2 + 1
        self.assertEqual(y, expected, **EXACT)


WITHOUT_A_KERNEL = {
    "channel_shuffle": lambda x: torch.channel_shuffle(x[None, :, :, None], 2),
    "heaviside": lambda x: torch.heaviside(x, x),
    "max_unpool2d": lambda x: F.max_unpool2d(
        *F.max_pool2d(x[None], 2, return_indices=True), 2
    ),
    "take": lambda x: torch.take(x, torch.tensor([0, 5], device=x.device)),
    "upsample_trilinear3d": lambda x: F.interpolate(
        x[None, None, None], scale_factor=2, mode="trilinear"
    ),
    "vdot": lambda x: torch.vdot(x[0], x[1]),
}
ON_THE_CPU = """
import torch
x = torch.randn(4, 4, device="mps")
first = torch.zeros(1, dtype=torch.long, device="mps")
for function in (
    lambda x: (x * 2).cummax(0)[0] + 1,
    lambda x: torch.vdot(x[0] * 2, x[1]),
    lambda x: x.index_copy(0, first, x[1:2]) * 2,
):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="mpsgraphs")
    for i in range(3):
        x.copy_(torch.randn(4, 4))
        assert torch.equal(compiled(x), function(x))
    (report,) = torch.mps.compile_report()
    print(report["replays"], *(split["operator"] for split in report["splits"]))
"""


class TestOperatorsWithoutAKernel(CompileTestCase):
    @parametrize("name", list(WITHOUT_A_KERNEL))
    def test_decomposition(self, name):
        """Eager raises, and a decomposition runs on the device."""
        function = WITHOUT_A_KERNEL[name]
        with self.assertRaises(NotImplementedError):
            function(new(4, 4))
        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(3):
            x = new(4, 4)
            self.assertEqual(compiled(x).cpu(), function(x.cpu()))
        (report,) = reports()
        counts = report["captures"], report["replays"], report["splits"]
        self.assertEqual(counts, (1, 2, []))

    def test_eager_error(self):
        compiled = torch.compile(lambda x: x.cummax(0)[0], backend="mpsgraphs")
        for function in (compiled, lambda x: x.cummax(0)[0]):
            with self.assertRaisesRegex(NotImplementedError, "aten::_cummax_helper"):
                function(new(4))

    def test_mask_of_dropout(self):
        """Of Booleans, as native_dropout() gives on other devices."""
        compiled = torch.compile(
            lambda x, mask: torch.ops.aten.native_dropout_backward(x, mask, 2.0),
            backend="mpsgraphs",
        )
        for _ in range(3):
            x, mask = new(5), new(5) > 0
            self.assertEqual(compiled(x, mask), x * mask * 2, **EXACT)

    def test_svd(self):
        """Eager has a fallback for linalg_svd alone, which tracing takes apart."""
        report = self.check(
            lambda x: torch.linalg.svd(x * 2)[1] + 1, (4, 4), pieces=[2], eager_calls=0
        )
        self.assertEqual([s["operator"] for s in report["splits"]], ["linalg_svd"])

    def test_eager_svd(self):
        """Also where torch.fx has written the code of the graph before the backend gets it."""

        def function(x):
            return torch.linalg.svd(x)[1] * 2

        with torch.fx._lazy_graph_module._force_skip_lazy_graph_module():
            compiled = torch.compile(
                function, backend="mpsgraphs", dynamic=True, options={"max_graphs": 1}
            )
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for n in (3, 4, 5):
                    x = new(n, n)
                    self.assertEqual(compiled(x), function(x), **EXACT)

    def test_gradients_that_the_cpu_computes(self):
        """Eager records copies to the CPU. A function with such an operator runs eagerly if it needs gradients."""

        def function(x, y):
            upsampled = F.interpolate(y, scale_factor=2, mode="nearest")
            return torch.linalg.svd(x)[1].sum() * upsampled.square().sum()

        compiled = torch.compile(function, backend="mpsgraphs")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                x = new(3, 3, requires_grad=True)
                y = new(1, 1, 2, 2, 2, requires_grad=True)
                grads = [
                    torch.autograd.grad(f(x, y), (x, y)) for f in (compiled, function)
                ]
                self.assertEqual(*grads, **EXACT)

    def test_assertion(self):
        """Eager reads the condition, so the call is split there, by Dynamo or by the backend."""

        # as text, because pytest writes other code for assertions of test files
        names = {}
        exec('def f(x):\n assert (x > -99).all(), "too small"\n return x * 2', names)
        function = names["f"]
        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(3):
            self.compare(compiled, function, new(4))
        self.assertGreater(sum(r["replays"] for r in reports()), 0)
        with self.assertRaisesRegex(AssertionError, "too small"):
            compiled(new(4) - 1000)

    @parametrize("name", ["as_strided", "as_strided_copy", "as_strided_scatter"])
    def test_storage_of_an_argument(self, name):
        """A copy of the argument has other elements there."""

        def function(x):
            sizes = (2, 2), (1, 3), 1
            if name == "as_strided_scatter":
                return torch.as_strided_scatter(x.t(), x.new_zeros(2, 2), *sizes)
            return getattr(torch, name)(x.t(), *sizes) * 2

        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(2):
            room = new(5, 8)
            for x in (room[:3, :4], room[1:4, :4], room[2:, 3:7], room[:, ::2][:3]):
                self.compare(compiled, function, x)

    def test_effect(self):
        """An operator that AOTAutograd orders by a token runs in each call."""
        calls = []
        with torch.library._scoped_library("mpsgraphs_test", "FRAGMENT") as library:
            library.define("effect(Tensor x) -> Tensor")
            for key in ("MPS", "Meta"):
                library.impl(
                    "effect", lambda x: (calls.append(x.device), x * 3)[1], key
                )
            op = torch.ops.mpsgraphs_test.effect.default
            effects._register_effectful_op(op, effects._EffectType.ORDERED)
            compiled = torch.compile(lambda x: op(x + 1) * 2, backend="mpsgraphs")
            for _ in range(3):
                x = new(4)
                del calls[:]
                y = compiled(x)
                self.assertIn(x.device, calls)
                self.assertEqual(y, (x + 1) * 6, **EXACT)

    @parametrize("reentrant", [True, False])
    def test_checkpoint_with_dropout(self, reentrant):
        """The second run draws what the first one did."""
        layer = nn.Linear(8, 8).to("mps")

        def function(x):
            return checkpoint(
                lambda x: F.dropout(layer(x).exp(), 0.5), x, use_reentrant=reentrant
            )

        compiled = torch.compile(function, backend="mpsgraphs")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(4):
                x, results = new(4, 8, requires_grad=True), []
                for call in (compiled, function):
                    torch.mps.manual_seed(seed)
                    y = call(x)
                    (grad,) = (
                        torch.autograd.grad(y.sum(), x)
                        if not reentrant
                        else self.gradient(y, x)
                    )
                    results.append((y, grad, torch.mps.get_rng_state()))
                self.assertEqual(*results, **EXACT)

    def gradient(self, y, x):
        x.grad = None
        y.sum().backward()
        return (x.grad,)

    def test_slice_assignment(self):
        """Kept whole: the device has a kernel for slice_scatter by way of others."""

        def function(cache, value):
            cache[:, 2:4] = value
            return cache * 1

        self.check(function, (4, 8), (4, 2))
        report = reports()[0]
        (compiled,) = _made.values()
        self.assertEqual(report["splits"], [])
        self.assertLess(len(compiled.traced.nodes), 9)

    def test_cpu_fallback(self):
        """With PYTORCH_ENABLE_MPS_FALLBACK=1 they run on the CPU, as in eager, but for index_copy."""
        environment = {**os.environ, "PYTORCH_ENABLE_MPS_FALLBACK": "1"}
        output = subprocess.check_output(
            [sys.executable, "-W", "ignore", "-c", ON_THE_CPU],
            env=environment,
            text=True,
            # elsewhere `torch` may be the bare sources
            cwd=os.path.dirname(os.path.realpath(__file__)),
        )
        self.assertEqual(output, "2 aten.cummax.default\n2 aten.vdot.default\n2\n")


class _TracedStrides(TorchDispatchMode):
    """Compares the strides of each result with those that a trace has."""

    def __init__(self):
        super().__init__()
        self.compared, self.different = set(), {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fake = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs or {}))
        results = op(*args, **(kwargs or {}))
        try:
            with mode:
                of_trace = op(*fake[0], **fake[1])
        except Exception:
            return results  # depends on values, or on the CPU
        for real, traced in zip(tree_leaves(results), tree_leaves(of_trace)):
            if isinstance(real, torch.Tensor) and real.device.type == "mps":
                self.compared.add(str(op))
                pairs = zip(real.stride(), traced.stride(), real.shape)
                if real.shape == traced.shape and any(
                    a != b and size > 1 for a, b, size in pairs
                ):
                    self.different[str(op)] = real.stride(), traced.stride()
        return results


class TestOthers(CompileTestCase):
    def test_exception_in_the_middle(self):
        def function(x):
            y = x * 2
            torch._dynamo.graph_break()
            if x.shape[0] == 5:
                raise ValueError("five")
            return y.sin()

        compiled = torch.compile(function, backend="mpsgraphs")
        for size in (4, 5, 4, 5, 4):
            x = new(size)
            if size == 5:
                with self.assertRaisesRegex(ValueError, "five"):
                    compiled(x)
            else:
                self.assertEqual(compiled(x), function(x), **EXACT)

    def test_threads(self):
        def function(x):
            return (x.sin() @ x).tanh()

        compiled = torch.compile(function, backend="mpsgraphs")
        compiled(new(8, 8))
        wrong = []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            for _ in range(20):
                x = torch.randn(8, 8, generator=generator).to("mps")
                if not torch.equal(compiled(x), function(x)):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_in_a_capture(self):
        """A call becomes part of the caller's graph, whether it would capture or replay."""
        compiled = torch.compile(lambda x: x.sin() + 1, backend="mpsgraphs")
        x = new(4)
        compiled(new(4))
        torch.compile(lambda x: x.cos(), backend="mpsgraphs")(x)
        other = torch.compile(lambda x: x.cos() * 2, backend="mpsgraphs")
        other(new(3))
        torch._dynamo.mark_dynamic(x, 0)
        with torch.mps.graph_capture() as graph:
            y = compiled(x)
        self.compare_replays(graph, x, y, lambda x: x.sin() + 1)

    @parametrize("copy_outputs", [True, False])
    def test_later_calls_leave_a_capture_alone(self, copy_outputs):
        options = {"copy_outputs": copy_outputs}
        compiled = torch.compile(
            lambda x: x.sin() + 1, backend="mpsgraphs", options=options
        )
        x = new(4)
        compiled(new(4))
        with torch.mps.graph_capture() as graph:
            y = compiled(x)
        self.compare_replays(
            graph, x, y, lambda x: x.sin() + 1, lambda: compiled(new(4))
        )

    def test_what_can_not_be_traced(self):
        message = (
            "(.*) runs eagerly, since AOTAutograd can't trace it: ValueError: planted"
        )
        tracer = "aot_dispatch_base_graph"
        users = [
            module
            for name, module in sys.modules.items()
            if name.startswith("torch._functorch._aot_autograd.")
            and hasattr(module, tracer)
        ]
        self.assertGreater(len(users), 0)
        with contextlib.ExitStack() as stack:
            for module in users:
                planted = ValueError("planted")
                stack.enter_context(
                    unittest.mock.patch.object(module, tracer, side_effect=planted)
                )
            compiled = torch.compile(lambda x: x.sin() + 1, backend="mpsgraphs")
            with self.assertWarnsRegex(UserWarning, message):
                compiled(new(3))
            for _ in range(2):
                x = new(3)
                self.assertEqual(compiled(x), x.sin() + 1, **EXACT)
        self.assertEqual(reports(), [])

    def test_forward_mode(self):
        """AOTAutograd drops tangents, so the function runs eagerly."""
        function = lambda x: x.sin() * x  # noqa: E731
        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(2):
            x, tangent = new(3), new(3)
            with fwAD.dual_level():
                duals = [f(fwAD.make_dual(x, tangent)) for f in (function, compiled)]
                tangents = [fwAD.unpack_dual(dual).tangent for dual in duals]
            self.assertEqual(*tangents, **EXACT)
            self.compare(compiled, function, x)

    def test_dtype_of_autocast(self):
        layer = nn.Linear(8, 8).to("mps")
        compiled = torch.compile(layer, backend="mpsgraphs")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for dtype in 2 * (torch.float16, torch.bfloat16, None):
                x = new(4, 8)
                with torch.autocast("mps", dtype, enabled=dtype is not None):
                    result, wanted = compiled(x), layer(x)
                self.assertEqual(result, wanted, **EXACT)
                self.assertEqual(result.dtype, wanted.dtype)
        told = [w for w in caught if "another autocast" in str(w.message)]
        self.assertLessEqual(len(told), 1)

    @parametrize("how", ["compile", "fake", "make_fx", "export", "meta", "empty"])
    def test_tensors_without_memory_in_a_capture(self, how):
        """The capture looks at no memory that is not there, and records the work of the others."""
        x, number = new(4), torch.tensor(2.0)
        module = nn.Linear(4, 4).to("mps")

        def function(x):
            return x * number

        def trace():
            if how == "compile":
                return torch.compile(function, backend="aot_eager")(x)
            if how == "fake":
                with FakeTensorMode() as mode:
                    mode.from_tensor(x) * mode.from_tensor(number)
            elif how == "make_fx":
                make_fx(lambda a, b: a * b, tracing_mode="fake")(x, number)
            elif how == "export":
                torch.export.export(module, (x,))
            elif how == "meta":
                number.to("meta") * number.to("meta")
            else:
                x[:0] + torch.empty(0).sum()
            return x * 2

        graph = torch.mps.Graph()
        with torch.mps.graph(graph):
            y = trace()
        x.copy_(new(4))
        y.zero_()
        graph.replay()
        self.assertEqual(y, x * 2, **EXACT)

    def test_step_of_an_optimizer(self):
        layers = [nn.Linear(4, 4).to("mps") for _ in range(2)]
        layers[1].load_state_dict(layers[0].state_dict())
        optimizers = [
            torch.optim.Adam(
                layer.parameters(), torch.tensor(0.1, device="mps"), capturable=True
            )
            for layer in layers
        ]
        steps = [
            torch.compile(optimizers[0].step, backend="mpsgraphs"),
            optimizers[1].step,
        ]
        for _ in range(4):
            x = new(3, 4)
            for layer, optimizer, step in zip(layers, optimizers, steps):
                optimizer.zero_grad()
                layer(x).square().sum().backward()
                step()
        self.assertEqual(*(layer.weight for layer in layers), **EXACT)
        self.assertGreater(reports()[0]["replays"], 1)

    def test_condition(self):
        """torch.cond stays whole, and runs eagerly between pieces."""

        def function(which, x):
            y = torch.cond(which, lambda x: x * 2, lambda x: x + 1, (x.sin(),))
            return y * 3

        compiled = torch.compile(function, backend="mpsgraphs")
        for value in (True, False, True, False):
            self.compare(compiled, function, torch.tensor(value, device="mps"), new(3))
        self.assertEqual([s["operator"] for s in reports()[0]["splits"]], ["cond"])

    @parametrize("mode", ["nearest", "nearest-exact", "bicubic"])
    def test_pixels_of_upsampling(self, mode):
        self.check(
            lambda x: F.interpolate(x, scale_factor=1.7, mode=mode), (1, 1, 16, 16)
        )

    def test_number_of_double_precision(self):
        function = lambda x, s: x * s  # noqa: E731
        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(3):
            x = new(3, dtype=torch.complex64)
            number = torch.randn((), dtype=torch.complex128)
            self.compare(compiled, function, x, number)

    def test_conjugated_argument(self):
        function = lambda x: x * 2 + x.real  # noqa: E731
        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(2):
            for x in (
                new(3, dtype=torch.complex64),
                new(3, dtype=torch.complex64).conj(),
            ):
                self.compare(compiled, function, x)
                self.assertEqual(compiled(x.imag), function(x.imag), **EXACT)

    LAYOUTS = {
        "transposed": lambda: new(5, 3).abs().t(),
        "permuted": lambda: new(2, 3, 5).abs().permute(2, 0, 1),
        "channels_last": lambda: new(2, 3, 4, 4)
        .abs()
        .contiguous(memory_format=torch.channels_last),
    }

    @parametrize("layout", list(LAYOUTS))
    def test_traced_strides(self, layout):
        """Those of the device, operator by operator: programs and views decide by them."""
        x, number = self.LAYOUTS[layout](), torch.tensor(0.3, device="mps")
        calls = [op.op for op in unary_ufuncs]
        for op in binary_ufuncs:
            for other in (x + 0.5, number, (x + 1).contiguous()):
                calls.append(lambda x, op=op.op, other=other: op(x, other))
            calls.append(lambda x, op=op.op: op(number, x))
        channels = x.shape[1]
        calls += [
            lambda x: F.batch_norm(x, None, None, training=True),
            lambda x: F.batch_norm(x, new(channels), new(channels).abs()),
            lambda x: F.conv2d(x, new(2, channels, 1, 1)),
            lambda x: F.dropout(x),
            lambda x: F.group_norm(x, 1),
            lambda x: F.hardswish(x),
            lambda x: F.huber_loss(x, x + 1, reduction="none"),
            lambda x: F.interpolate(x, scale_factor=2),
            lambda x: F.layer_norm(x, x.shape[-1:]),
            lambda x: F.linear(x, new(4, x.shape[-1])),
            lambda x: F.max_pool2d(x, 2),
            lambda x: F.pad(x, (1, 1)),
            lambda x: F.pixel_shuffle(x, 1),
            lambda x: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
            lambda x: F.pixel_unshuffle(x, 1),
            lambda x: F.pixel_unshuffle(x, 2),
            lambda x: F.prelu(x, new(1)),
            lambda x: F.relu(x),
            lambda x: F.smooth_l1_loss(x, x + 1, reduction="none"),
            lambda x: F.softmax(x, -1),
            lambda x: F.softshrink(x),
            lambda x: torch.cat([x, x]),
            lambda x: torch.linalg.inv(x[..., :3, :3] + torch.eye(3, device="mps")),
            lambda x: torch.where(x > 0.5, x, x + 1),
            lambda x: x.clone(),
            lambda x: x.cumsum(0),
            lambda x: x.flip(0),
            lambda x: x.masked_fill(x > 0.5, 0.0),
            lambda x: x.roll(1, 0),
            lambda x: x.sort(0),
            lambda x: x.sum(0),
        ]
        index = torch.tensor([[0, 1, 1], [1, 0, 1]], device="mps")
        for i in (index[0], index, index.t(), index[:1].expand(2, 3)):
            calls += [
                lambda x, i=i: x[i],
                lambda x, i=i: x[:, i],
                lambda x, i=i: x[..., i],
                lambda x, i=i: x[i, i],
                lambda x, i=i: x[i, index[0]],
                lambda x, i=i: x[i, :, i],
                lambda x, i=i: x[:, i, i.contiguous()],
                lambda x, i=i: x[None, i],
            ]
        seen = _TracedStrides()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for call in calls:
                # what eager does not run is not compared
                with seen, contextlib.suppress(Exception):
                    call(x)
        self.assertGreater(len(seen.compared), 100)
        self.assertEqual(seen.different, {})

    @parametrize("mode,shape", [("linear", (2, 3, 5)), ("bilinear", (2, 3, 5, 4))])
    @parametrize("align_corners", [False, True])
    def test_upsampling(self, mode, shape, align_corners):
        """Not taken apart, which would give other last bits, also for gradients."""

        def function(x):
            return F.interpolate(
                x, scale_factor=2.0, mode=mode, align_corners=align_corners
            )

        self.check(function, shape)
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="mpsgraphs")
        for _ in range(3):
            x, weight = new(*shape, requires_grad=True), function(new(*shape))
            (compiled(x) * weight).sum().backward()
            grad, x.grad = x.grad, None
            (function(x) * weight).sum().backward()
            self.assertEqual(grad, x.grad, **EXACT)

    def test_strides_of_a_convolution(self):
        """For a program that asks for them, the trace has those that the device gives."""
        layer = nn.Conv2d(3, 4, 3, device="mps")

        def function(x):
            y = layer(x.to(memory_format=torch.channels_last))
            return y * 2 if y.is_contiguous() else y + 1

        with torch.no_grad():
            self.check(function, (2, 3, 5, 5))

    @parametrize("name", ["silu", "mish", "softshrink"])
    def test_gradient_of_an_activation(self, name):
        """By the operator that eager runs, which rounds otherwise than the formula that can be differentiated again."""
        function = getattr(F, name)
        compiled = torch.compile(lambda x: function(x), backend="mpsgraphs")
        for _ in range(3):
            x, weight = new(64, requires_grad=True), new(64)
            grads = [
                torch.autograd.grad(call(x), x, weight) for call in (compiled, function)
            ]
            self.assertEqual(*grads, **EXACT)
        self.assertEqual(reports("backward")[0]["replays"], 2)

    @parametrize("bias", [False, True])
    def test_linear_of_a_transposed_input(self, bias):
        """Tracing would multiply batches."""
        layer = nn.Linear(6, 5, bias=bias, device="mps")
        compiled = torch.compile(
            lambda x: layer(x.transpose(0, 1)), backend="mpsgraphs"
        )
        for _ in range(3):
            x = new(3, 4, 6, requires_grad=True)
            results = []
            for function in (compiled, lambda x: layer(x.transpose(0, 1))):
                layer.zero_grad()
                x.grad = None
                y = function(x)
                y.square().sum().backward()
                results.append([y, x.grad, *(p.grad for p in layer.parameters())])
            self.assertEqual(results[0], results[1], **EXACT)
        self.assertEqual(reports("backward")[0]["replays"], 2)

    def test_mode(self):
        """Inductor's mode of this kind is accepted, and changes nothing."""
        function = torch.compile(
            lambda x: x * 2 + 1, backend="mpsgraphs", mode="reduce-overhead"
        )
        for _ in range(3):
            x = new(2)
            self.assertEqual(function(x), x * 2 + 1, **EXACT)
        (report,) = torch.mps.compile_report()
        self.assertEqual((report["captures"], report["replays"]), (1, 2))

    @unittest.skipIf(
        hasattr(torch.mps, "compile_shader"), "the default backend knows the device"
    )
    def test_default_backend_names_this_one(self):
        message = (
            "torch.compile: in this release of PyTorch the default backend does not support MPS. Use "
            "backend='mpsgraphs', which captures and replays graphs."
        )
        with self.assertRaisesRegex(
            torch._dynamo.exc.BackendCompilerFailed, re.escape(message)
        ):
            torch.compile(lambda x: x + 1)(new(2))

    def test_bad_options(self):
        for given, message in (
            (
                {"options": {"copies": 1}},
                "torch.compile(backend='mpsgraphs'): there is no option 'copies'; "
                "known are copy_outputs, max_graphs, pad_batch",
            ),
            (
                {"options": {"max_graphs": 0}},
                "torch.compile(backend='mpsgraphs'): the option 'max_graphs' takes a positive int, but is 0",
            ),
            (
                {"options": {"copy_outputs": 1}},
                "torch.compile(backend='mpsgraphs'): the option 'copy_outputs' takes a bool, but is 1",
            ),
            (
                {"mode": "max-autotune"},
                "torch.compile(backend='mpsgraphs'): mode must be 'reduce-overhead' or None, which mean the same, got "
                "'max-autotune'. Choose with options: copy_outputs, max_graphs, pad_batch",
            ),
        ):
            function = torch.compile(lambda x: x + 1, backend="mpsgraphs", **given)
            with self.assertRaises(torch._dynamo.exc.BackendCompilerFailed) as raised:
                function(new(2))
            inner = raised.exception.inner_exception
            self.assertIsInstance(inner, ValueError)
            self.assertEqual(str(inner), message)
            torch._dynamo.reset()

    def test_line_of_a_module(self):
        """Where all operators are torch's own, the line is that of the call."""

        layer = nn.Embedding(4, 3, max_norm=1.0, device="mps")
        compiled = torch.compile(layer, backend="mpsgraphs")
        indices = torch.arange(4, device="mps")
        with warnings.catch_warnings(record=True) as caught, torch.no_grad():
            warnings.simplefilter("always")
            line = inspect.currentframe().f_lineno + 1
            compiled(indices)
        (told,) = (str(w.message) for w in caught if "mpsgraphs" in str(w.message))
        place = f"test_mps_graph_compile.py:{line}, in test_line_of_a_module)"
        self.assertEqual(told.count(place), 2, told)
        (report,) = reports()
        (split,) = report["splits"]
        self.assertIn(place, report["function"])
        self.assertIn(place[:-1], split["line"])
        self.assertRegex(
            split["reason"],
            rf"falls back to the CPU.*:{line} \(test_line_of_a_module\)\.$",
        )

    def test_copies(self):
        compiled = torch.compile(lambda x: x + 1, backend="mpsgraphs")
        compiled(new(2))
        (piece,) = _made.values()
        for function in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaises(TypeError) as raised:
                function(piece)
            self.assertEqual(
                str(raised.exception),
                f"torch.compile(backend='mpsgraphs'): {piece.name} can't be copied or pickled, since its graphs belong "
                "to this process. Save the state_dict() of the model instead.",
            )

    def test_report(self):
        self.assertEqual(torch.mps.compile_report(), [])
        report = self.check(lambda x: x + 1, (3,))
        self.assertIn("test_mps_graph_compile.py", report["function"])
        self.assertEqual(report["part"], "inference")
        self.assertEqual(report["splits"], [])


instantiate_parametrized_tests(TestInference)
instantiate_parametrized_tests(TestShapes)
instantiate_parametrized_tests(TestPaddedBatches)
instantiate_parametrized_tests(TestTraining)
instantiate_parametrized_tests(TestOrder)
instantiate_parametrized_tests(TestOthers)
instantiate_parametrized_tests(TestOperatorsWithoutAKernel)

if __name__ == "__main__":
    run_tests()
