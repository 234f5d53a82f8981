# Owner(s): ["module: mps"]

"""Cases for torch.mps.make_graphed_callables: what its docstring says, or an error."""

import collections
import copy
import unittest
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils._python_dispatch import TorchDispatchMode


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

EXACT = {"atol": 0, "rtol": 0}


def new(*shape, **options):
    return torch.randn(shape, device="mps", **options)


class Net(nn.Module):
    def __init__(self, dropout=0.2):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.linear = nn.Linear(6 * 16, 5)
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)
        self.dropout = dropout

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return (
            self.linear(F.dropout(x, self.dropout, self.training).flatten(1))
            + self.frozen
        )


class TestGraphedCallables(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def make_pair(self, module, *shapes, grad=False, **kwargs):
        module = module.to("mps")
        reference = copy.deepcopy(module)
        args = tuple(torch.randn(s, device="mps", requires_grad=grad) for s in shapes)
        state = torch.mps.get_rng_state()
        graphed = torch.mps.make_graphed_callables(module, args, **kwargs)
        self.assertEqual(torch.mps.get_rng_state(), state)
        self.assertIs(graphed, module)
        self.assert_same_state(graphed, reference)
        return graphed, reference

    def assert_same_state(self, a, b):
        self.assertEqual(a.state_dict(), b.state_dict(), **EXACT)

    def test_training(self):
        """Steps with dropout, running statistics and a frozen parameter are those of eager."""
        pair = self.make_pair(Net(), (8, 1, 6, 6))
        optimizers = [torch.optim.Adam(m.parameters(), 1e-2) for m in pair]
        for _ in range(6):
            x, y = (
                new(8, 1, 6, 6),
                torch.randint(5, (8,), device="mps"),
            )
            state = torch.mps.get_rng_state()
            losses, left = [], []
            for module, optimizer in zip(pair, optimizers):
                torch.mps.set_rng_state(state)
                optimizer.zero_grad()
                loss = F.cross_entropy(module(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                left.append(torch.mps.get_rng_state())
            self.assertEqual(losses[0], losses[1], **EXACT)
            self.assertEqual(left[0], left[1])
            self.assert_same_state(*pair)

    def test_gradients_accumulate(self):
        graphed, reference = self.make_pair(nn.Linear(4, 3), (2, 4))
        for _ in range(3):
            x = new(2, 4)
            for module in (graphed, reference):
                module(x).square().sum().backward()
        self.assertEqual(graphed.weight.grad, reference.weight.grad, **EXACT)

    def test_results_are_not_overwritten(self):
        graphed, reference = self.make_pair(nn.Linear(4, 3), (2, 4), grad=True)
        xs = [new(2, 4, requires_grad=True) for _ in range(2)]
        with torch.no_grad():
            ys = [graphed(x) for x in xs]
        self.assertEqual(ys, [reference(x) for x in xs], **EXACT)
        grads = [torch.autograd.grad(graphed(x).square().sum(), [x])[0] for x in xs]
        expected = [
            torch.autograd.grad(reference(x).square().sum(), [x])[0] for x in xs
        ]
        self.assertEqual(grads, expected, **EXACT)

    def test_eval_mode_runs_as_before(self):
        graphed, reference = self.make_pair(Net(), (4, 1, 6, 6))
        graphed.eval(), reference.eval()
        x = new(7, 1, 6, 6)
        self.assertEqual(graphed(x), reference(x), **EXACT)

    def test_other_arguments_run_eagerly(self):
        """As the last batch of an epoch, with one warning for all."""
        layer = nn.Linear(4, 3).to("mps").requires_grad_(False)
        graphed = torch.mps.make_graphed_callables(lambda x: layer(x), (new(5, 4),))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for shape in ((5, 4), (2, 4), (5, 4), (7, 5, 4)):
                x = new(*shape)
                self.assertEqual(graphed(x), layer(x), **EXACT)
            with self.assertRaises(TypeError):
                graphed(x, x)
            with self.assertRaises(RuntimeError):
                graphed(x.long())
        self.assertEqual(len(caught), 1)
        self.assertIn("differ from those of sample_args", str(caught[0].message))

    def test_transforms_run_eagerly(self):
        """Of torch.func, and forward-mode AD."""
        layer = nn.Linear(4, 3).to("mps").requires_grad_(False)
        graphed = torch.mps.make_graphed_callables(
            lambda x: layer(x).exp(), (new(4, requires_grad=True),)
        )

        def function(x):
            return layer(x).exp()

        x = new(4)
        self.assertEqual(graphed(x), function(x), **EXACT)
        for transform in (
            torch.func.jacrev,
            torch.func.jacfwd,
            lambda f: torch.func.grad(lambda x: f(x).sum()),
            lambda f: lambda x: torch.func.vmap(f)(torch.stack([x, 2 * x])),
        ):
            self.assertEqual(transform(graphed)(x), transform(function)(x))

    def test_graphed_again(self):
        """The graphs of before go, and a call in the other mode runs the module's own code."""
        layer = nn.Linear(4, 3).to("mps")
        own = layer.forward
        for _ in range(3):
            torch.mps.make_graphed_callables(layer, (new(2, 4),))
            self.assertEqual(layer.forward.original, own)
        for x in (new(2, 4), new(2, 4)):
            wanted = F.linear(x, layer.weight, layer.bias)
            self.assertEqual(layer(x), wanted, **EXACT)
            self.assertEqual(layer.eval()(x), wanted, **EXACT)
            layer.train()

    def test_keywords(self):
        class Mixed(nn.Module):
            def forward(self, x, y, scale=None, *, flag=False):
                return x * 2 + y

        for graphed in (
            torch.mps.make_graphed_callables(Mixed(), (new(3), new(3))),
            torch.mps.make_graphed_callables(Mixed().forward, (new(3), new(3))),
        ):
            x, y = new(3), new(3)
            for result in (graphed(y=y, x=x), graphed(x, y=y), graphed(x, y)):
                self.assertEqual(result, x * 2 + y, **EXACT)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                graphed(x=x, y=y)
            with self.assertWarnsRegex(UserWarning, "differ from those of sample_args"):
                graphed(x, y, flag=True)
            with self.assertRaisesRegex(TypeError, "missing a required argument"):
                graphed(x=x)

    def test_results_of_other_types(self):
        """They stay as they were in the capture."""
        weight = new(3, requires_grad=True)

        def function(x, w):
            return {
                "loss": (x * w).sum(),
                "logits": x * 2,
                "cache": None,
                "n": (3, "a"),
            }

        graphed = torch.mps.make_graphed_callables(function, (new(3), weight))
        for _ in range(3):
            x = new(3)
            results, wanted = graphed(x, weight), function(x, weight)
            self.assertEqual(results, wanted, **EXACT)
            self.assertIsNone(results["cache"])
            grads = [
                torch.autograd.grad(r["loss"], weight)[0] for r in (results, wanted)
            ]
            self.assertEqual(*grads, **EXACT)

    def test_callables_draw_from_the_default_generator_alone(self):
        """They bring no other one back after an attempt."""
        generator = torch.Generator(device="mps")
        state = generator.get_state()

        def draw(x):
            return x + torch.rand(4, device="mps", generator=generator)

        with self.assertRaisesRegex(RuntimeError, "other than the default one"):
            torch.mps.make_graphed_callables(
                draw, (torch.ones(4, device="mps"),), num_warmup_iters=0
            )
        self.assertEqual(generator.get_state(), state)

    def test_tensor_that_is_left_behind_raises(self):
        """Replays would overwrite it, or leave it as it is."""

        class Auxiliary(nn.Linear):
            def forward(self, x):
                hidden = super().forward(x)
                self.aux = hidden.square().mean()
                return hidden.relu()

        kept = []
        for function in (
            Auxiliary(4, 4).to("mps"),
            lambda x: (x * 2, kept.append(x + 1))[0],
        ):
            with self.assertRaisesRegex(
                RuntimeError,
                r"keeps the Float tensor of shape .*(mean|add) at .*\.py:\d+ .* none of its results",
            ):
                torch.mps.make_graphed_callables(function, (new(2, 4),))

    def test_tensor_that_autograd_keeps(self):
        """The context of an autograd.Function may have any tensors."""

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.twice = x * 2
                return x * x

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.twice

        graphed = torch.mps.make_graphed_callables(
            lambda x: Square.apply(x), (new(3, requires_grad=True),)
        )
        for _ in range(2):
            x = new(3, requires_grad=True)
            self.assertEqual(
                torch.autograd.grad(graphed(x).sum(), x)[0], x * 2, **EXACT
            )

    def test_captured_in_eval_mode(self):
        graphed, reference = self.make_pair(Net().eval(), (4, 1, 6, 6), grad=True)
        x = new(4, 1, 6, 6, requires_grad=True)
        self.assertEqual(graphed(x), reference(x), **EXACT)

    @parametrize("with_pool", [False, True])
    def test_tuple(self, with_pool):
        """Modules and functions, nested arguments and results, calls in the order given."""
        linear = nn.Linear(3, 3).to("mps")

        def first(pair, c):
            return {"sum": pair[0] + pair[1] * c, "product": pair[0] * c}

        def last(x):
            return x.exp(), x.detach() * 2

        a, b, c = (new(3, requires_grad=True) for _ in range(3))
        pool = torch.mps.graph_pool_handle() if with_pool else None
        functions = (first, linear, last)
        reference = copy.deepcopy(linear)
        graphed = torch.mps.make_graphed_callables(
            functions, (((a, b), c), (a,), (a,)), pool=pool
        )
        for _ in range(2):
            a, b, c = (new(3, requires_grad=True) for _ in range(3))

            def run(first, linear, last):
                out = first((a, b), c)
                x, y = last(linear(out["sum"]) + out["product"])
                self.assertFalse(y.requires_grad)
                grads = torch.autograd.grad((x * y).sum(), [a, b, c, linear.weight])
                return x, y, *grads

            self.assertEqual(run(*graphed), run(first, reference, last), **EXACT)

    def make_elementwise(self, count):
        """Functions whose temporaries and activations have one size, so that they share memory."""

        def function(x):
            return ((x.sin() * x).exp() * x).sin() * x

        samples = tuple((new(64, requires_grad=True),) for _ in range(count))
        return function, torch.mps.make_graphed_callables((function,) * count, samples)

    def test_one_pool(self):
        """Callables that are given together need less memory than each with a pool of its own."""

        def function(x):
            return (x.exp() + 1).sin().sum(1)

        def pool_bytes(counts):
            samples = [(torch.zeros(4096, 1024, device="mps"),) for _ in range(4)]
            before = torch.mps.current_allocated_memory()
            kept = []
            for count in counts:
                own = tuple(samples.pop() for _ in range(count))
                kept += torch.mps.make_graphed_callables((function,) * count, own)
            self.assertEqual(len(kept), 4)
            return torch.mps.current_allocated_memory() - before

        self.assertLess(pool_bytes([4]), 0.7 * pool_bytes([1, 1, 1, 1]))

    @parametrize("between", ["nothing", "later", "earlier"])
    def test_order_of_calls(self, between):
        """A call of an earlier one may overwrite activations: an error, no wrong gradient."""
        function, graphed = self.make_elementwise(3)
        x = new(64, requires_grad=True)
        y = graphed[1](x)
        if between != "nothing":
            graphed[2 if between == "later" else 0](x + 1)
        if between == "earlier":
            with self.assertRaisesRegex(RuntimeError, "graph of the same pool"):
                y.sum().backward()
            return
        y.sum().backward()
        expected = torch.autograd.grad(function(x).sum(), [x])[0]
        self.assertEqual(x.grad, expected, **EXACT)

    def test_backward_twice(self):
        """retain_graph=True: a graph keeps the activations that it reads."""
        function, graphed = self.make_elementwise(2)
        x = new(64, requires_grad=True)
        y = graphed[1](graphed[0](x))
        expected = torch.autograd.grad(function(function(x)).sum(), [x])[0]
        for _ in range(2):
            got = torch.autograd.grad(y.sum(), [x], retain_graph=True)[0]
            self.assertEqual(got, expected, **EXACT)

    def test_samples_stay_as_they_were(self):
        x = torch.ones(4, device="mps")
        graphed = torch.mps.make_graphed_callables(lambda y: y.add_(1) * x, (x,))
        self.assertEqual(x.tolist(), [1.0] * 4)
        self.assertEqual(
            graphed(torch.full((4,), 5.0, device="mps")).tolist(), [6.0] * 4
        )
        self.assertEqual(x.tolist(), [1.0] * 4)

    def count(self, operator, function):
        """How often a function calls an operator."""
        counts = collections.Counter()

        class Count(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                counts[func.overloadpacket] += 1
                return func(*args, **(kwargs or {}))

        with Count():
            function()
        return counts[operator]

    def test_static_input_is_not_copied(self):
        x, other = (new(2, 4) for _ in range(2))
        graphed, reference = self.make_pair(nn.Linear(4, 4), (2, 4))
        copies = torch.ops.aten.copy_
        self.assertEqual(self.count(copies, lambda: graphed(x)), 1)
        (static,) = graphed.forward.static_inputs
        static.copy_(other)
        self.assertEqual(self.count(copies, lambda: graphed(static)), 0)
        self.assertEqual(graphed(static), reference(other), **EXACT)
        # the same memory, but not the same tensor
        sample = new(4, 4)
        exp = torch.mps.make_graphed_callables(lambda x: x.exp(), (sample,))
        (square,) = exp.static_inputs
        square.copy_(torch.randn(4, 4))
        expected = square.t().exp().clone()
        self.assertEqual(exp(square.t()), expected, **EXACT)

    def test_swapped_static_inputs(self):
        """Writing one argument must not change the other."""
        samples = tuple(new(4) for _ in range(2))
        graphed = torch.mps.make_graphed_callables(lambda a, b: a.exp() - b, samples)
        a, b = graphed.static_inputs
        a.copy_(torch.randn(4)), b.copy_(torch.randn(4))
        expected = b.exp() - a
        self.assertEqual(graphed(b, a), expected, **EXACT)

    def test_gradients_of_parameters_are_not_copied(self):
        """When they are added to those that are there."""
        graphed, reference = self.make_pair(nn.Linear(4, 4), (2, 4))
        for step in range(3):
            x = new(2, 4)
            loss = graphed(x).square().sum()
            copies = self.count(torch.ops.aten.clone, loss.backward)
            self.assertEqual(copies, 0 if step else 2)
            reference(x).square().sum().backward()
            for one, other in zip(graphed.parameters(), reference.parameters()):
                self.assertEqual(one.grad, other.grad, **EXACT)

    @parametrize("how", ["autograd.grad", "hook"])
    def test_gradients_that_others_see_are_not_overwritten(self, how):
        graphed, reference = self.make_pair(nn.Linear(4, 4), (2, 4))
        pair = (graphed, reference)
        kept = ([], [])
        xs = [new(2, 4) for _ in range(3)]
        for module, grads in zip(pair, kept):
            module(xs[0]).square().sum().backward()
            if how == "hook":
                module.weight.register_hook(grads.append)
            for x in xs:
                loss = module(x).square().sum()
                if how == "hook":
                    loss.backward()
                else:
                    grads.append(torch.autograd.grad(loss, [module.weight])[0])
        self.assertEqual(kept[0], kept[1], **EXACT)

    @parametrize("kind", ["own gradient", "that of the result"])
    def test_call_in_a_backward_pass(self, kind):
        """A gradient that waits for another part of its sum is not overwritten by a call meanwhile."""
        weight = nn.Parameter(new(64))

        def function(x, weight):
            if kind == "own gradient":
                return ((x * weight).sin() * weight).exp()
            return x + weight

        module = nn.Module()
        module.weight = weight
        module.forward = lambda x: function(x, weight)

        def before(x):
            # more temporaries at a time than the other one has: these have the same memory
            return torch.stack([x + i for i in range(20)]).sum(0)

        x = new(64)
        first, second = torch.mps.make_graphed_callables(
            (before, module), ((x.clone(),), (x.clone().requires_grad_(),))
        )

        class Calls(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                first(torch.full_like(grad, 2))
                return grad * 1

        reference = copy.deepcopy(weight)
        weight.grad, reference.grad = torch.ones_like(x), torch.ones_like(x)
        for factor in (2, 3):
            (second(Calls.apply(x * weight)) * factor).sum().backward()
            (function(x * reference, reference) * factor).sum().backward()
            self.assertEqual(weight.grad, reference.grad, **EXACT)

    def test_unused_input(self):
        a, b = (new(3, requires_grad=True) for _ in range(2))

        def function(a, b):
            return a * 2

        graphed = torch.mps.make_graphed_callables(
            function, (a, b), allow_unused_input=True
        )
        x = new(3, requires_grad=True)
        grads = torch.autograd.grad(
            graphed(x, b).square().sum(), [x, b], allow_unused=True
        )
        self.assertEqual(grads[0], x * 8)
        self.assertIsNone(grads[1])

    @parametrize("kind", ["forward", "forward_pre", "full_backward", "parameter"])
    def test_hooks(self, kind):
        """Before the capture an error; afterwards those of module and parameters are called."""
        calls = []
        module = nn.Sequential(nn.Linear(2, 2)).to("mps")

        def add(module):
            if kind == "parameter":
                return module[0].weight.register_hook(lambda g: calls.append(g))
            return getattr(module, f"register_{kind}_hook")(
                lambda *a: calls.append(a) and None
            )

        hook = add(module)
        with self.assertRaisesRegex(RuntimeError, "has hooks"):
            torch.mps.make_graphed_callables(module, (torch.zeros(1, 2, device="mps"),))
        hook.remove()
        graphed = torch.mps.make_graphed_callables(
            module, (torch.zeros(1, 2, device="mps", requires_grad=True),)
        )
        self.assertEqual(len(calls), 0)
        add(graphed)
        graphed(torch.ones(1, 2, device="mps", requires_grad=True)).sum().backward()
        self.assertEqual(len(calls), 1)


instantiate_parametrized_tests(TestGraphedCallables)

if __name__ == "__main__":
    run_tests()
