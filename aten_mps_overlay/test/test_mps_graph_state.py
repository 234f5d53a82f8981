# Owner(s): ["module: mps"]

"""Cases for torch.mps graphs after a change of state: a replay equals eager now, or raises."""

import gc
import io
import unittest
import warnings
import weakref
from typing import Optional

from test_mps_graph import captured, EXACT

import torch
from torch import nn
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

DEVICE = "mps"


def numbers(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) + 1


METADATA = {
    "offset": lambda x: x.set_(x.untyped_storage(), 4, (4, 4), (4, 1)),
    "storage": lambda x: x.set_(numbers(4, 4).to(DEVICE) * 5),
    "data": lambda x: setattr(x, "data", numbers(2, 4, 4).to(DEVICE)[1]),
    "transposed": lambda x: x.t_(),
    "data_transposed": lambda x: setattr(x, "data", x.data.t()),
    "as_strided_": lambda x: x.as_strided_((4, 4), (1, 4)),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "smaller": lambda x: x.resize_(2, 4),
    "larger": lambda x: x.resize_(40, 4),
    "dtype": lambda x: setattr(x, "data", x.data.half()),
    "negative": lambda x: setattr(x, "data", torch._neg_view(x.data)),
}


def device_numbers(*shape):
    return numbers(*shape).to(DEVICE)


def channels_last(*shape):
    return device_numbers(*shape).to(memory_format=torch.channels_last)


# Each way of PyTorch to change a tensor: what makes the tensor, and what changes it.
CHANGES = {
    "data": (4, 4, lambda x: setattr(x, "data", device_numbers(4, 4))),
    "data_transposed": (4, 4, lambda x: setattr(x, "data", x.data.t())),
    "data_dtype": (4, 4, lambda x: setattr(x, "data", x.data.half())),
    "data_negative": (4, 4, lambda x: setattr(x, "data", torch._neg_view(x.data))),
    "set_tensor": (4, 4, lambda x: x.set_(device_numbers(4, 4))),
    "set_storage": (4, 4, lambda x: x.set_(device_numbers(16).untyped_storage())),
    "set_offset": (4, 4, lambda x: x.set_(x.untyped_storage(), 4, (3, 4))),
    "set_nothing": (4, 4, lambda x: x.set_()),
    "larger": (4, 4, lambda x: x.resize_(100, 100)),
    "smaller": (4, 4, lambda x: x.resize_(2, 2)),
    "resize_format": (
        2,
        3,
        4,
        4,
        lambda x: x.resize_((2, 3, 4, 5), memory_format=torch.channels_last),
    ),
    "t_": (3, 4, lambda x: x.t_()),
    "transpose_": (3, 4, lambda x: x.transpose_(0, 1)),
    "swapaxes_": (3, 4, lambda x: x.swapaxes_(0, 1)),
    "squeeze_": (1, 4, lambda x: x.squeeze_()),
    "squeeze_dim": (1, 4, lambda x: x.squeeze_(0)),
    "unsqueeze_": (3, 4, lambda x: x.unsqueeze_(0)),
    "as_strided_": (4, 4, lambda x: x.as_strided_((4, 2), (4, 1))),
    "later_alias": (4, 4, lambda x: x.detach().resize_(100, 100)),
    "later_view": (4, 4, lambda x: x[:1].resize_(1000)),
    "out_add": (4, 4, lambda x: torch.add(device_numbers(8, 8), 1, out=x)),
    "out_cat": (
        2,
        3,
        4,
        4,
        lambda x: torch.cat([device_numbers(1, 3, 4, 4)] * 2, out=x),
    ),
    "out_pool": (
        2,
        3,
        4,
        4,
        lambda x: torch._C._nn.avg_pool2d(device_numbers(2, 3, 8, 8), 2, out=x),
    ),
    "out_inverse": (
        4,
        4,
        lambda x: torch.linalg.inv(torch.eye(4, device=DEVICE), out=x),
    ),
}
HOST = {
    "data": lambda h: setattr(h, "data", numbers(8) * 5),
    "set_": lambda h: h.set_(numbers(8) * 5),
    "offset": lambda h: h.set_(h.untyped_storage(), 2, (6,)),
    "resize_": lambda h: h.resize_(80),
}
LIBRARY = torch.mps._compile_shader(
    "kernel void fill(device float* out, constant float& value, uint i [[thread_position_in_grid]]) "
    "{ out[i] = value; }"
)
hidden = []


@torch.library.custom_op("mps_graph_test::fill", mutates_args=())
def fill(x: torch.Tensor, value: Optional[torch.Tensor]) -> torch.Tensor:
    out = torch.empty_like(x)
    LIBRARY.fill(out, hidden[0] if value is None else value)
    return out


def fill_with_hidden(x, s):
    """The operator reads a tensor that it is not given."""
    hidden.append(s)
    try:
        return fill(x, None)
    finally:
        hidden.clear()


def fill_with_kernel(x, s):
    out = torch.empty_like(x)
    LIBRARY.fill(out, s)
    return out


READS = {
    "mul": lambda x, s: x * s,
    "add_": lambda x, s: (x + 0).add_(s),
    "fill_": lambda x, s: (x + 0).fill_(s),
    "masked_fill": lambda x, s: x.masked_fill(x > 1, s),
    "pow": lambda x, s: s**x,
    "foreach": lambda x, s: torch._foreach_mul([x], s)[0],
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "full": lambda x, s: x + torch.full((4,), s, device=DEVICE),
    "item": lambda x, s: x * s.item(),
    "part": lambda x, s: x * s.view(1)[0],
    "kernel": fill_with_kernel,
    "kernel_and_copy": lambda x, s: s.to(DEVICE) + fill_with_kernel(x, s),
    "operator": fill,
    "hidden": fill_with_hidden,
    "hidden_and_copy": lambda x, s: s.to(DEVICE) + fill_with_hidden(x, s),
}
COPIES = {
    "where": lambda x, s: torch.where(x > 1, x, s),
    "index_put_": lambda x, s: (x + 0).index_put_(
        (torch.tensor([1], device=DEVICE),), s
    ),
    "to": lambda x, s: x * s.to(DEVICE),
}


class TestMetadata(TestCase):
    @parametrize("change", list(METADATA))
    def test_changed_input_raises(self, change):
        """An input, whatever became of its memory."""
        x = torch.zeros(32, device=DEVICE)
        x.set_(x.untyped_storage(), 0, (4, 4), (4, 1))
        graph, y = captured(lambda: x * 2)
        x.copy_(numbers(4, 4))
        graph.replay()
        self.assertEqual(y, numbers(4, 4) * 2)
        METADATA[change](x)
        with self.assertRaisesRegex(
            RuntimeError,
            r"shape \[4, 4\].*first used by aten::mul at .*test_mps_graph_state.py:\d+ .*capture again",
        ):
            graph.replay()

    @parametrize("change", list(CHANGES))
    @parametrize("alias", [False, True])
    @parametrize("layout", ["rows", "columns"])
    @torch.no_grad()
    def test_every_change_raises(self, change, alias, layout):
        """Also if another tensor keeps the old memory. What leaves the tensor as it was does not raise."""
        *shape, change = CHANGES[change]
        x = device_numbers(*shape)
        if layout == "columns":
            x = channels_last(*shape) if len(shape) == 4 else x.t().contiguous().t()
        kept = x.detach() if alias else None

        def state():
            memory = x.untyped_storage()
            place = memory.data_ptr(), memory.nbytes(), x.storage_offset()
            return place, x.shape, x.stride(), x.dtype, x.is_neg()

        graph, y = captured(lambda: x * 2)
        graph.replay()
        before = state()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change(x)
        if state() == before:
            graph.replay()
            self.assertEqual(y, x * 2)
            return
        for _ in range(2):
            with self.assertRaisesRegex(
                RuntimeError, "torch.mps graph replay: the Float tensor"
            ):
                graph.replay()
        del kept

    @parametrize("made", ["view", "data"])
    @parametrize("replays", [0, 1])
    @parametrize("check", [False, True])
    def test_dropped_input(self, made, replays, check):
        """It may go at once or later, and replays meanwhile make no difference. Behind .data nobody sees which tensor
        went, or whether it has other memory, so that raises."""
        base = numbers(8).to(DEVICE)
        x = base[0:4]
        graph = torch.mps.Graph()
        with torch.mps.graph(graph, check_input_liveness=check):
            y = (x if made == "view" else base.data[0:4]) * 2
        base.fill_(3)
        del x
        for _ in range(replays):
            graph.replay()
            self.assertEqual(y, torch.full((4,), 6.0))
        del base
        gc.collect()
        if check or made == "data":
            with self.assertRaisesRegex(RuntimeError, "is gone|no longer exists"):
                graph.replay()
        else:
            y.zero_()
            for _ in range(2):
                graph.replay()
            self.assertEqual(y, torch.full((4,), 6.0))

    @parametrize("gradients", [False, True])
    def test_changed_requires_grad(self, gradients):
        """Counts if the block recorded gradients: eager would record other ones now."""
        x = numbers(4).to(DEVICE)
        with torch.set_grad_enabled(gradients):
            graph, y = captured(lambda: x * 2)
        x.requires_grad_()
        if gradients:
            with self.assertRaisesRegex(RuntimeError, "now has requires_grad=True"):
                graph.replay()
            x.requires_grad_(False)
        with torch.no_grad():
            x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((4,), 6.0))

    def test_replaced_result_with_an_alias(self):
        """The memory of the block lives on in the alias, so nothing is freed."""
        x = numbers(4).to(DEVICE)
        graph, y = captured(lambda: x * 2)
        alias = y.detach()
        y.data = torch.zeros(4, device=DEVICE)
        with self.assertRaisesRegex(RuntimeError, "another storage"):
            graph.replay()
        y.data = alias
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((4,), 6.0))

    @parametrize("change", list(METADATA))
    @parametrize("through", ["graphed", "compiled"])
    def test_changed_parameter(self, change, through):
        """Of a graphed module raises; of a compiled one leads to another capture, and raises for a new shape."""
        layer = nn.Linear(4, 4, bias=False, device=DEVICE).requires_grad_(False)
        with torch.no_grad():
            layer.weight.set_(torch.zeros(32, device=DEVICE)[:16].view(4, 4))
            layer.weight.copy_(numbers(4, 4))
        x = numbers(2, 4).to(DEVICE)
        if through == "graphed":
            function = torch.mps.make_graphed_callables(layer, (x,))
        else:
            torch._dynamo.reset()
            function = torch.compile(layer, backend="mpsgraphs")
        with torch.no_grad():
            for _ in range(2):
                function(x)
            METADATA[change](layer.weight)
            try:
                expected = nn.functional.linear(x, layer.weight)
            except Exception as error:
                expected = error
            try:
                result = function(x)
            except Exception as error:
                if through == "compiled" and not isinstance(expected, Exception):
                    now = layer.weight.shape, layer.weight.dtype
                    self.assertNotEqual(now, ((4, 4), torch.float32))
                    self.assertIn("Dynamo does not notice such a change", str(error))
                return
        self.assertNotIsInstance(expected, Exception)
        self.assertEqual(result, expected)

    @parametrize("change", ["data", "resize_"])
    def test_empty_input(self, change):
        """A tensor without memory, as an empty cache is."""
        x = torch.empty(0, 3, device=DEVICE)
        graph, y = captured(lambda: torch.cat([x, numbers(2, 3).to(DEVICE)]))
        graph.replay()
        self.assertEqual(y, numbers(2, 3))
        if change == "data":
            x.data = numbers(2, 3).to(DEVICE)
        else:
            x.resize_(2, 3).fill_(1)
        with self.assertRaisesRegex(
            RuntimeError, r"shape \[0, 3\].*now has shape \[2, 3\]"
        ):
            graph.replay()
        graph, y = captured(lambda: torch.add(x, x, out=torch.empty(0, device=DEVICE)))
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((2, 3), 6.0))

    @parametrize("change", ["resize_", "unsqueeze_", "as_strided_"])
    def test_empty_tensor_that_the_block_filled(self, change):
        """The block gave it its memory, but its shape is the program's."""
        x, result = numbers(4).to(DEVICE), torch.empty(0, device=DEVICE)
        graph, _ = captured(lambda: torch.add(x, 1, out=result))
        x.fill_(3)
        graph.replay()
        self.assertEqual(result, torch.full((4,), 4.0))
        arguments = {"resize_": (0,), "unsqueeze_": (0,), "as_strided_": ((2,), (1,))}
        getattr(result, change)(*arguments[change])
        with self.assertRaisesRegex(RuntimeError, r"shape \[4\].*now has shape"):
            graph.replay()

    def test_tensor_that_an_operator_has(self):
        """It existed before the block, although no operator was given it."""
        weight, x = numbers(4, 4).to(DEVICE), numbers(2, 4).to(DEVICE)
        with torch.library._scoped_library("mps_graph_state_test", "FRAGMENT") as lib:
            lib.define("weight(Tensor x) -> Tensor")
            lib.impl("weight", lambda x: weight, "CompositeExplicitAutograd")
            operator = torch.ops.mps_graph_state_test.weight
            graph, y = captured(lambda: x @ operator(x))
        weight.mul_(3)
        graph.replay()
        self.assertEqual(y, x @ weight)
        weight.t_()
        with self.assertRaisesRegex(RuntimeError, r"strides \[1, 4\] instead of"):
            graph.replay()

    def test_graph_of_views(self):
        x = numbers(4).to(DEVICE)
        graph, y = captured(lambda: x.view(2, 2))
        x.resize_(2)
        with self.assertRaisesRegex(RuntimeError, r"now has shape \[2\]"):
            graph.replay()

    def test_changed_view_of_the_block(self):
        """The block makes it again."""
        x = numbers(4, 4).to(DEVICE)
        graph, (view, y) = captured(lambda: (x.view(16), x.view(16) * 2))
        view.unsqueeze_(0)
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((16,), 6.0))

    def test_changed_result(self):
        """It shows the new values in its new shape."""
        x = numbers(2, 3).to(DEVICE)
        graph, y = captured(lambda: x * 2)
        y.t_()
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((3, 2), 6.0))

    def test_change_in_the_block_raises(self):
        """Eager would change it once more; one that is taken back does not matter."""
        x = numbers(2, 3).to(DEVICE)
        with self.assertRaisesRegex(RuntimeError, r"now has shape \[3, 2\]\. Do that"):
            captured(lambda: x.t_() * 2)
        x.t_()
        graph, y = captured(lambda: (x.t_() * 2, x.t_())[0])
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((3, 2), 6.0))


class TestHostInputs(TestCase):
    @parametrize("change", list(HOST))
    @parametrize("view", [False, True])
    def test_changed_source_raises(self, change, view):
        host = numbers(8)
        part = (lambda: host[2:6]) if view else (lambda: host)
        graph, y = captured(lambda: part().to(DEVICE) * 2)
        host.mul_(3)
        graph.replay()
        self.assertEqual(y, part() * 2)
        HOST[change](host)
        with self.assertRaisesRegex(RuntimeError, r"CPU tensor of shape \[8\]"):
            graph.replay()

    def test_swapped_source_raises(self):
        host = numbers(8)
        graph, _ = captured(lambda: host.to(DEVICE))
        with self.assertRaisesRegex(RuntimeError, "Cannot swap t1 because .* a graph"):
            torch.utils.swap_tensors(host, numbers(8))
        graph.reset()
        torch.utils.swap_tensors(host, numbers(8))

    def test_constant(self):
        """A CPU tensor that the block made is not copied again."""
        x = torch.zeros(3, device=DEVICE)
        host = numbers(3)
        graph, y = captured(
            lambda: x + torch.tensor([1.0, 2.0, 3.0]).to(DEVICE) + host.to(DEVICE)
        )
        stats = graph.stats()
        self.assertEqual([stats["constants"], stats["host_refreshes"]], [1, 1])
        x.fill_(3)
        host.fill_(5)
        y.zero_()
        graph.replay()
        self.assertEqual(y, torch.tensor([9.0, 10.0, 11.0]))

    @parametrize("use", [*READS, *COPIES])
    @parametrize("change", ["value", "data", "same"])
    def test_number(self, use, change):
        """An operator reads a CPU tensor as a number, which raises if it changed, or copies it."""
        block = {**READS, **COPIES}[use]
        x, s = numbers(4).to(DEVICE), torch.tensor(2.0)
        graph, y = captured(lambda: block(x, s))
        if change == "data":
            s.data = torch.tensor(3.0)
        else:
            s.fill_(2 if change == "same" else 3)
        x.mul_(2)
        if change == "same" or (use in COPIES and change == "value"):
            y.fill_(99)
            graph.replay()
            self.assertEqual(y, block(x, s))
        else:
            with self.assertRaisesRegex(
                RuntimeError, "CPU tensor of shape .*capture again"
            ):
                graph.replay()

    def test_number_that_python_does_not_have(self):
        """TorchScript keeps the buffer of a loaded module."""

        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("factor", torch.tensor(2.0))

            def forward(self, x):
                return x * self.factor

            @torch.jit.export
            def increase(self):
                self.factor.add_(1)

        file = io.BytesIO()
        torch.jit.save(torch.jit.script(Scale()), file)
        file.seek(0)
        scale, x = torch.jit.load(file), numbers(4).to(DEVICE)
        graph, y = captured(lambda: scale(x))
        x.mul_(2)
        y.zero_()
        graph.replay()
        self.assertEqual(y, x * 2)
        scale.increase()
        with self.assertRaisesRegex(RuntimeError, "holds 3 instead of 2"):
            graph.replay()

    @parametrize("make", [torch.arange, torch.zeros, torch.ones])
    def test_source_that_the_block_makes(self, make):
        """If the program keeps it, a replay copies it again, and raises if it is not what the block would make."""

        def block():
            host = make(3)
            return host, host.to(DEVICE, torch.half), host.to(DEVICE)

        graph, (host, *copies) = captured(block)
        for y in copies:
            y.fill_(99)
        graph.replay()
        self.assertEqual([y.float() for y in copies], [make(3).float()] * 2)
        host.add_(9)
        with self.assertRaisesRegex(RuntimeError, "made and copied .* was written to"):
            graph.replay()

    @parametrize("where", ["before", "inside"])
    @parametrize("write", ["numpy", "apply"])
    @parametrize("dtype", [torch.float, torch.half])
    def test_source_changed_without_an_operator_raises(self, where, write, dtype):
        outer = torch.zeros(3)

        def block():
            host, copies = torch.zeros(3) if where == "inside" else outer, []
            for i in range(3):
                if write == "numpy":
                    host.numpy()[:] = i
                else:
                    host.apply_(lambda _, i=i: i)
                copies.append(host.to(DEVICE, dtype))
            return copies

        with self.assertRaisesRegex(RuntimeError, "changed a CPU tensor without an op"):
            captured(block)

    @parametrize("use", [*READS, *COPIES])
    @parametrize("check", [False, True])
    def test_replaced_tensor(self, use, check):
        block = {**READS, **COPIES}[use]
        x, s = numbers(4).to(DEVICE), torch.tensor(2.0)
        graph = torch.mps.Graph()
        with torch.mps.graph(graph, check_input_liveness=check):
            y = block(x, s)
        wanted = y.clone()
        s = torch.tensor(3.0)
        self.assertNotEqual(block(x, s), wanted)
        y.zero_()
        if check:
            with self.assertRaisesRegex(RuntimeError, "CPU tensor .* is gone"):
                graph.replay()
        else:
            graph.replay()
            self.assertEqual(y, wanted)

    def test_long_computation(self):
        """Costs what it holds: each step reads the one before it twice."""
        x, s = numbers(4).to(DEVICE), torch.tensor(1.0)

        def block():
            y = x * 2
            c = s + 0
            for _ in range(60):
                c = c + c
            return y

        graph, y = captured(block)
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((4,), 6.0))

    def test_other_element(self):
        """Only what was read counts."""
        x, h = numbers(4).to(DEVICE), numbers(2)
        graph, y = captured(lambda: x * h[1])
        h[0] = 7
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((4,), 6.0))
        h[1] = 7
        with self.assertRaisesRegex(RuntimeError, "holds 7 instead of 2"):
            graph.replay()

    def test_number_of_an_inner_graph(self):
        x, s = numbers(4).to(DEVICE), torch.tensor(2.0)
        inner, y = captured(lambda: x * s)
        outer, _ = captured(inner.replay)
        s.fill_(3)
        with self.assertRaisesRegex(RuntimeError, "holds 3 instead of 2"):
            outer.replay()

    def test_condition(self):
        """The branches of the program are those of the capture."""
        x, s = numbers(4).to(DEVICE), torch.tensor(2.0)
        graph, y = captured(lambda: x * 2 if s > 1 else x)
        s.fill_(0)
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((4,), 6.0))

    @parametrize("how", ["draw", "counter", "later"])
    def test_number_that_the_block_computes_raises(self, how):
        x, s = numbers(4).to(DEVICE), torch.tensor(2.0)
        block = {
            "draw": lambda: x * torch.rand(()).item(),
            "counter": lambda: x * s.add_(1).item(),
            "later": lambda: (x * s, s.add_(1)),
        }[how]
        with self.assertRaisesRegex(
            RuntimeError, "computed a CPU tensor|wrote to a CPU tensor"
        ):
            captured(block)


class TestAutocast(TestCase):
    def call(self, layer, x):
        with torch.autocast(DEVICE, dtype=torch.float16):
            return layer(x)

    @parametrize("gradients", [False, True])
    def test_casts_do_not_cross_the_edges(self, gradients):
        """Those before the capture, and those of an earlier one; eager casts again after it."""
        layer = nn.Linear(4, 4, device=DEVICE)
        x = numbers(2, 4).to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.float16), torch.set_grad_enabled(
            gradients
        ):
            layer(x)
            first, y = captured(lambda: layer(x).detach())
            second, z = captured(lambda: layer(x * 2).detach())
            with torch.no_grad():
                layer.weight.mul_(2)
            y.zero_()
            first.replay()
            second.replay()
            with torch.no_grad():
                layer.weight.mul_(2)
            after = layer(x)
        with torch.no_grad():
            self.assertEqual(after, self.call(layer, x))
            layer.weight.mul_(0.5)
            self.assertEqual(y, self.call(layer, x))
            self.assertEqual(z, self.call(layer, x * 2))
            layer.weight.mul_(2)
            first.replay()
            second.replay()
            self.assertEqual(y, self.call(layer, x))
            self.assertEqual(z, self.call(layer, x * 2))

    def test_graphed_under_autocast(self):
        """Casts of the forward pass, and gradients through them."""
        layers = [nn.Linear(4, 4, device=DEVICE) for _ in range(2)]
        layers[1].load_state_dict(layers[0].state_dict())
        x = numbers(2, 4).to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.float16):
            graphed = torch.mps.make_graphed_callables(layers[0], (x,))
        for factor in (1, 2):
            with torch.no_grad():
                for layer in layers:
                    layer.weight.mul_(factor)
            results = [self.call(layer, x * factor) for layer in (graphed, layers[1])]
            for result in results:
                result.sum().backward()
            self.assertEqual(results[0], results[1], **EXACT)
            grads = [layer.weight.grad for layer in layers]
            self.assertEqual(grads[0], grads[1], **EXACT)


class Counting(torch.optim.Optimizer):
    """Makes its counter in its first step, as many optimizers outside of torch do."""

    def __init__(self, params, where):
        super().__init__(params, {"lr": 0.5, "k": 0})
        self.where = where

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if self.where == "group":
                    group["k"] += 1
                    count = group["k"]
                elif self.where == "tensor":
                    count = state.setdefault("count", torch.tensor(0.0)).add_(1)
                else:
                    count = state["count"] = state.get("count", 0) + 1
                p.sub_(p.grad, alpha=group["lr"] / float(count))


class TestOptimizerState(TestCase):
    def parameter(self):
        weight = nn.Parameter(numbers(4).to(DEVICE))
        weight.grad = torch.ones_like(weight)
        return weight

    @parametrize("kind", ["SGD", "AdamW"])
    @parametrize("how", ["lr", "scheduler", "weight_decay", "same"])
    def test_changed_number_raises(self, kind, how):
        weight = self.parameter()
        options = {"capturable": True} if kind == "AdamW" else {}
        optimizer = getattr(torch.optim, kind)([weight], lr=0.5, **options)
        optimizer.step()
        graph, _ = captured(optimizer.step)
        outer, _ = captured(graph.replay)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        key = "weight_decay" if how == "weight_decay" else "lr"
        old = optimizer.param_groups[0][key]
        if how == "scheduler":
            optimizer.step()
            scheduler.step()
        elif how != "same":
            optimizer.param_groups[0][key] = 0.25
        for one in (graph, outer):
            if how == "same":
                one.replay()
                continue
            with self.assertRaisesRegex(
                RuntimeError,
                rf"\[0\]\['{key}'\] of {kind} was {old} .* and is 0.25 now",
            ):
                one.replay()

    def test_number_on_the_device(self):
        weights = [self.parameter() for _ in range(2)]
        rates = [torch.tensor(0.5, device=DEVICE) for _ in range(2)]
        optimizers = [
            torch.optim.AdamW([w], lr=r, capturable=True, foreach=False)
            for w, r in zip(weights, rates)
        ]
        for optimizer in optimizers:
            optimizer.step()
        graph, _ = captured(optimizers[0].step)
        optimizers[1].step()
        for rate in rates:
            rate.fill_(0.125)
        graph.replay()
        optimizers[1].step()
        self.assertEqual(weights[0], weights[1], **EXACT)

    @parametrize("where", ["group", "tensor", "number"])
    @parametrize("first", [False, True])
    def test_count_on_the_host_raises(self, where, first):
        """At the end of the step."""
        optimizer = Counting([self.parameter()], where)
        if not first:
            optimizer.step()
        with self.assertRaisesRegex(
            RuntimeError, r"Counting\.step\(\) counts .* on the host"
        ):
            captured(optimizer.step)

    def test_reset_lets_the_state_go(self):
        optimizer = torch.optim.AdamW([self.parameter()], lr=0.5, capturable=True)
        optimizer.step()
        graph, _ = captured(optimizer.step)
        average = weakref.ref(next(iter(optimizer.state.values()))["exp_avg"])
        del optimizer
        graph.reset()
        gc.collect()
        self.assertIsNone(average())

    @parametrize("kind", ["SGD", "AdamW"])
    def test_first_step_raises(self, kind):
        options = {"SGD": {"momentum": 0.5}, "AdamW": {"capturable": True}}[kind]
        optimizer = getattr(torch.optim, kind)([self.parameter()], lr=0.5, **options)
        with self.assertRaisesRegex(RuntimeError, r"step\(\) made its state"):
            captured(optimizer.step)
        captured(optimizer.step)[0].replay()


class TestFlags(TestCase):
    @parametrize("through", ["graphed", "compiled"])
    @parametrize("flag", ["sdp", "deterministic", "precision", "dtype"])
    def test_changed_flag(self, through, flag):
        """The call runs eagerly or is captured again."""
        q = numbers(1, 1, 3, 4).to(DEVICE)

        def function(x):
            return nn.functional.scaled_dot_product_attention(x, x, x) * 2

        if through == "graphed":
            call = torch.mps.make_graphed_callables(function, (q,))
        else:
            torch._dynamo.reset()
            call = torch.compile(function, backend="mpsgraphs")

        def captures():
            return sum(report["captures"] for report in torch.mps.compile_report())

        with torch.no_grad():
            call(q)
            before = captures()
            set_flag, changed, usual = {
                "sdp": (torch.backends.cuda.enable_flash_sdp, False, True),
                "deterministic": (torch.use_deterministic_algorithms, True, False),
                "precision": (torch.set_float32_matmul_precision, "medium", "highest"),
                "dtype": (torch.set_default_dtype, torch.float64, torch.float32),
            }[flag]
            set_flag(changed)
            try:
                if through == "graphed":
                    with self.assertWarnsRegex(UserWarning, "runs eagerly: a flag"):
                        result = call(q)
                else:
                    result = call(q)
                    self.assertGreater(captures(), before)
            finally:
                set_flag(usual)
            self.assertEqual(result, function(q))


instantiate_parametrized_tests(TestMetadata)
instantiate_parametrized_tests(TestHostInputs)
instantiate_parametrized_tests(TestAutocast)
instantiate_parametrized_tests(TestOptimizerState)
instantiate_parametrized_tests(TestFlags)

if __name__ == "__main__":
    run_tests()
