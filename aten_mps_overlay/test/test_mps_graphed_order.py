# Owner(s): ["module: mps"]

"""Orders of use of torch.mps.make_graphed_callables: values are those of eager, or an error names the cause."""

import contextlib
import copy
import functools
import unittest
import warnings

from test_mps_graph import captured, EXACT, GraphTestCase

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


def new(*shape, **options):
    return torch.randn(shape, device="mps", **options)


def make_net():
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.0), nn.Linear(8, 3)
    ).to("mps")


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        x = self.trunk(x).tanh()
        return self.a(x), self.b(x)


class Attributes(nn.Module):
    """Like modules of programs, which have more than parameters and buffers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.scale, self.is_merged, self.function = 2.0, False, torch.tanh
        self.mask = torch.ones(3, device="mps")

    def forward(self, x):
        x = self.function(self.linear(x)) * self.mask
        return x if self.is_merged else x * self.scale


class OrderTestCase(GraphTestCase):
    def make_pair(self, module=None):
        """A graphed module and an eager copy of it."""
        module = module or make_net()
        reference = copy.deepcopy(module)
        graphed = torch.mps.make_graphed_callables(module, (new(5, 4),))
        return graphed, reference

    def assert_same(self, pair):
        """Results, gradients and state of a step on new input are the same."""
        x = new(5, 4)
        for module in pair:
            module.zero_grad()
        results = [module(x) for module in pair]
        self.assertEqual(*results, **EXACT)
        for result in results:
            result.square().sum().backward()
        for one, other in zip(*(m.parameters() for m in pair)):
            self.assertEqual(one.grad, other.grad, **EXACT)
        states = (m.state_dict() for m in pair)
        self.assertEqual(*states, **EXACT)

    @contextlib.contextmanager
    def assert_replays(self, graphed, count):
        """The forward graph is replayed so many times in the block."""
        graph = graphed.forward.forward_graph
        before = graph.stats()["replays"]
        yield
        self.assertEqual(graph.stats()["replays"] - before, count)


class TestModules(OrderTestCase):
    """The module that is called is the module that computes."""

    @parametrize("kind", ["deepcopy", "AveragedModel"])
    def test_copies(self, kind):
        pair = self.make_pair()
        copies = [
            copy.deepcopy(m) if kind == "deepcopy" else AveragedModel(m) for m in pair
        ]
        with torch.no_grad():
            for one in copies:
                for parameter in one.parameters():
                    parameter.mul_(2)
        with self.assert_replays(pair[0], 0):
            self.assert_same(copies)
        with self.assert_replays(pair[0], 1):
            self.assert_same(pair)

    def test_functional_call(self):
        pair = self.make_pair()
        parameters = {k: torch.randn_like(v) for k, v in pair[0].named_parameters()}
        x = new(5, 4)
        with self.assertWarnsRegex(UserWarning, "Sequential runs eagerly: one of"):
            results = [torch.func.functional_call(m, parameters, (x,)) for m in pair]
        self.assertEqual(*results, **EXACT)
        self.assert_same(pair)

    CHANGES = {
        "submodule's mode": lambda m: m[1].eval(),
        "frozen norm": lambda m: m[1].requires_grad_(False),
        "parameter": lambda m: setattr(m[0], "bias", nn.Parameter(m[0].bias * 2)),
        "buffer": lambda m: setattr(m[1], "running_mean", m[1].running_mean + 1),
        "submodule": lambda m: m.__setitem__(2, nn.Hardtanh()),
        "assign": lambda m: m.load_state_dict(
            {k: v.clone() for k, v in m.state_dict().items()}, assign=True
        ),
        "parametrization": lambda m: nn.utils.parametrizations.weight_norm(m[0]),
        "dropout": lambda m: setattr(m[2], "p", 1.0),
        "hook": lambda m: m[1].register_forward_hook(lambda m, args, y: y * 2),
    }

    @parametrize("kind", sorted(CHANGES))
    def test_changed_module(self, kind):
        pair = self.make_pair()
        self.assert_same(pair)
        for module in pair:
            self.CHANGES[kind](module)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                self.assert_same(pair)
        told = [w for w in caught if "runs eagerly" in str(w.message)]
        self.assertEqual(len(told), 0 if kind == "frozen norm" else 1)

    ATTRIBUTES = {"scale": 3.0, "is_merged": True, "function": torch.exp, "mask": None}

    @parametrize("name", sorted(ATTRIBUTES))
    def test_changed_attribute(self, name):
        pair = self.make_pair(Attributes().to("mps"))
        with self.assert_replays(pair[0], 1):
            self.assert_same(pair)
        value = self.ATTRIBUTES[name]
        for module in pair:
            setattr(module, name, new(3) if value is None else value)
        pair[1].mask = pair[0].mask
        with self.assertWarnsRegex(UserWarning, "Attributes runs eagerly: one of"):
            self.assert_same(pair)

    def test_tensor_that_is_no_argument(self):
        tensors = [torch.ones(4, device="mps")]
        graphed = torch.mps.make_graphed_callables(lambda x: x * tensors[0], (new(4),))
        x = new(4)
        tensors[0].fill_(3)
        self.assertEqual(graphed(x), x * 3, **EXACT)
        tensors[0] = torch.full((4,), 5.0, device="mps")
        with self.assertRaisesRegex(RuntimeError, "is gone"):
            graphed(x)

    def test_leaf_that_is_no_argument(self):
        """Autograd would give it a gradient."""
        layer, x = nn.Linear(4, 3).to("mps"), new(5, 4)
        graphed = torch.mps.make_graphed_callables(lambda x: layer(x), (new(5, 4),))
        with torch.no_grad():
            self.assertEqual(graphed(x), layer(x), **EXACT)
        self.assertEqual(graphed.forward_graph.stats()["replays"], 1)
        with self.assertWarnsRegex(UserWarning, "runs eagerly: it uses a tensor"):
            graphed(x).sum().backward()
        self.assertEqual(layer.bias.grad, torch.full((3,), 5.0, device="mps"), **EXACT)

    def test_setting_of_attention(self):
        query = new(1, 2, 64, 32, dtype=torch.half) * 3
        attend = functools.partial(F.scaled_dot_product_attention, dropout_p=1e-7)

        def function(q):
            return attend(q, q, q)

        graphed = torch.mps.make_graphed_callables(function, (query,))
        setting = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
        try:
            for allowed in (setting, not setting):
                torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(allowed)
                self.assertEqual(graphed(query), function(query), **EXACT)
        finally:
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(setting)

    def test_unfrozen_parameter(self):
        module = make_net()
        module[0].weight.requires_grad_(False)
        pair = self.make_pair(module)
        self.assert_same(pair)
        for m in pair:
            m[0].weight.requires_grad_(True)
        with self.assertWarnsRegex(UserWarning, "frozen in the capture"):
            self.assert_same(pair)

    def test_global_hook(self):
        pair = self.make_pair()
        register = nn.modules.module.register_module_forward_hook
        hook = register(lambda m, args, y: y * 2 if type(m) is nn.Linear else None)
        with hook, self.assert_replays(pair[0], 0):
            self.assert_same(pair)
        with self.assert_replays(pair[0], 1):
            self.assert_same(pair)

    def test_autocast(self):
        """At the call, on or off."""
        for enabled in (False, True):
            reference = nn.Linear(4, 3).to("mps")
            with torch.autocast("mps", enabled=enabled, cache_enabled=False):
                graphed = torch.mps.make_graphed_callables(
                    copy.deepcopy(reference), (new(5, 4),)
                )
            for called in (True, False):
                x = new(5, 4)
                with torch.autocast("mps", enabled=called, cache_enabled=False):
                    with self.assert_replays(graphed, int(called == enabled)):
                        results = [m(x) for m in (graphed, reference)]
                self.assertEqual(*results, **EXACT)
                self.assertEqual(results[0].dtype, results[1].dtype)


class TestLiveResults(OrderTestCase):
    """What eager would still hold is not overwritten."""

    def test_threads(self):
        module = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
        reference = copy.deepcopy(module.to("mps"))
        graphed = torch.mps.make_graphed_callables(module, (new(4, 16),))
        wrong = []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            for _ in range(60):
                x = torch.randn(4, 16, generator=generator).to("mps")
                with torch.no_grad():
                    if not torch.equal(graphed(x), reference(x)):
                        wrong.append(seed)

        self.run_together(*(functools.partial(work, i) for i in range(2)))
        self.assertEqual(wrong, [])

    def test_outer_graph(self):
        pair = self.make_pair()
        static = new(5, 4)
        outer = torch.mps.MPSGraph()
        with torch.no_grad(), torch.mps.graph(outer), warnings.catch_warnings():
            warnings.simplefilter("error")
            y = pair[0](static)
        with torch.no_grad():
            self.assertEqual(y, pair[1](static), **EXACT)
        for _ in range(2):
            x = new(5, 4)
            results = [module(x) for module in pair]
            static.copy_(new(5, 4)), y.fill_(93)
            outer.replay()
            with torch.no_grad():
                self.assertEqual(y, pair[1](static), **EXACT)
            for result in results:
                result.square().sum().backward()
            for one, other in zip(*(m.parameters() for m in pair)):
                self.assertEqual(one.grad, other.grad, **EXACT)

    @parametrize("same_pool", [True, False])
    def test_graph_of_the_same_pool(self, same_pool):
        """A graph that was captured earlier overwrites activations, if it has the pool."""
        x = new(64)
        pool = torch.mps.graph_pool_handle()
        earlier, total = captured(
            lambda: torch.stack([x + i for i in range(20)]).sum(0), pool=pool
        )
        graphed = torch.mps.make_graphed_callables(
            lambda x: ((x.sin() * x).exp() * x).sin() * x,
            (new(64, requires_grad=True),),
            pool=pool if same_pool else None,
        )
        argument = new(64, requires_grad=True)
        result = graphed(argument)
        earlier.replay()
        self.assertEqual(total, torch.stack([x + i for i in range(20)]).sum(0))
        if same_pool:
            with self.assertRaisesRegex(RuntimeError, "graph of the same pool"):
                result.sum().backward()
            return
        result.sum().backward()
        other = argument.detach().clone().requires_grad_()
        (((other.sin() * other).exp() * other).sin() * other).sum().backward()
        self.assertEqual(argument.grad, other.grad, **EXACT)

    def test_pool_of_two_calls(self):
        """Callables that were made one by one know each other by their pool."""
        pool = torch.mps.graph_pool_handle()
        first, second = (
            torch.mps.make_graphed_callables(
                lambda x: (x.sin() * x).exp(), (new(64, requires_grad=True),), pool=pool
            )
            for _ in range(2)
        )
        result = second(new(64, requires_grad=True))
        first(new(64))
        with self.assertRaisesRegex(RuntimeError, "graph of the same pool"):
            result.sum().backward()

    @parametrize("other_call", [False, True])
    def test_gradient_that_a_prehook_keeps(self, other_call):
        """It outlives the next backward pass, and a call of another callable with the same pool."""
        module = nn.Linear(4, 4).to("mps")
        pair = (module, copy.deepcopy(module))
        pool = torch.mps.graph_pool_handle()
        # more temporaries at a time than the module has
        other = torch.mps.make_graphed_callables(
            lambda x: torch.stack([x + i for i in range(20)]).sum(0),
            (new(4, 4),),
            pool=pool,
        )
        torch.mps.make_graphed_callables(module, (new(5, 4),), pool=pool)
        kept, nodes = ([], []), []
        for module, grads in zip(pair, kept):
            weight = module.weight
            node = weight.expand_as(weight).grad_fn.next_functions[0][0]
            node.register_prehook(lambda g, grads=grads: grads.append(g[0][1]))
            nodes.append(node)
        for _ in range(2 if other_call else 4):
            x = new(5, 4)
            for module in pair:
                module(x).square().sum().backward()
        if other_call:
            other(new(4, 4))
        self.assertEqual(*kept, **EXACT)
        self.assertEqual(pair[0].weight.grad, pair[1].weight.grad, **EXACT)


class TestAutograd(OrderTestCase):
    """Autograd sees what happened."""

    @parametrize("name", ["0.weight", "3.weight"])
    def test_weight_written_before_the_backward_pass(self, name):
        module = make_net()
        graphed = torch.mps.make_graphed_callables(
            module, (new(5, 4, requires_grad=True),)
        )
        result = graphed(new(5, 4, requires_grad=True))
        with torch.no_grad():
            module.get_parameter(name).mul_(2)
        with self.assertRaisesRegex(RuntimeError, "was written to between .*version"):
            result.sum().backward()

    def test_bias_written_before_the_backward_pass(self):
        pair = self.make_pair(nn.Linear(4, 3).to("mps"))
        x = new(5, 4)
        results = [module(x) for module in pair]
        with torch.no_grad():
            for module in pair:
                module.bias.mul_(2)
        for result in results:
            result.square().sum().backward()
        self.assertEqual(pair[0].weight.grad, pair[1].weight.grad, **EXACT)

    def test_head_without_a_part(self):
        pair = self.make_pair(Heads().to("mps"))
        optimizers = [torch.optim.AdamW(m.parameters(), 0.1) for m in pair]
        for head in (0, 0, 1, 0):
            x = new(5, 4)
            for module, optimizer in zip(pair, optimizers):
                optimizer.zero_grad()
                module(x)[head].square().sum().backward()
                unused = (module.b, module.a)[head]
                self.assertIsNone(unused.weight.grad)
                optimizer.step()
            states = (m.state_dict() for m in pair)
            self.assertEqual(*states, **EXACT)

    @parametrize("mode", ["inference_mode", "no_grad"])
    def test_made_without_gradients(self, mode):
        module = nn.Linear(4, 3).to("mps")
        reference = copy.deepcopy(module)
        with getattr(torch, mode)():
            graphed = torch.mps.make_graphed_callables(module, (new(5, 4),))
            x = new(5, 4)
            self.assertEqual(graphed(x), reference(x), **EXACT)
        self.assert_same((graphed, reference))


class TestAliases(OrderTestCase):
    def test_results_that_alias(self):
        def function(x):
            y = x * 2
            return y, y.view(-1), y.T, x + 1

        graphed = torch.mps.make_graphed_callables(function, (new(2, 3),))
        for _ in range(2):
            x = new(2, 3)
            results, expected = graphed(x), function(x)
            for y in (results, expected):
                y[0].add_(1)
            self.assertEqual(results, expected, **EXACT)

    def test_complex_results_that_alias(self):
        def function(x):
            y = x * 2
            return y, y.conj(), y.imag, y.conj().imag

        sample = new(3, dtype=torch.complex64)
        graphed = torch.mps.make_graphed_callables(function, (sample,))
        for _ in range(2):
            x = new(3, dtype=torch.complex64)
            self.assertEqual(graphed(x), function(x), **EXACT)

    def test_results_that_alias_in_training(self):
        def function(x):
            y = x * 2
            return y, y.view(-1)

        sample = new(2, 3, requires_grad=True)
        y, z = torch.mps.make_graphed_callables(function, (sample,))(sample)
        self.assertEqual(y.view(-1), z, **EXACT)
        with self.assertRaisesRegex(RuntimeError, "is a view and is being modified"):
            z.add_(1)

    @parametrize("grad", [False, True])
    def test_result_that_is_an_argument(self, grad):
        def function(x, y):
            return x * y, y

        samples = (new(3, requires_grad=grad), new(3, requires_grad=grad))
        graphed = torch.mps.make_graphed_callables(
            function, samples, allow_unused_input=True
        )
        x, y = new(3, requires_grad=grad), new(3, requires_grad=grad)
        results = graphed(x, y)
        self.assertIs(results[1], y)
        self.assertEqual(results[0], x * y, **EXACT)

    def test_argument_that_is_written_to(self):
        def function(x, total):
            total.add_(x)
            return total * 3

        graphed = torch.mps.make_graphed_callables(function, (new(4), new(4)))
        totals = (torch.zeros(4, device="mps"), torch.zeros(4, device="mps"))
        for _ in range(3):
            x = new(4)
            results = [f(x, t) for f, t in zip((graphed, function), totals)]
            self.assertEqual(*results, **EXACT)
            self.assertEqual(*totals, **EXACT)

    @parametrize("kind", ["same", "partly", "apart"])
    def test_arguments_in_one_memory(self, kind):
        """What one argument gets is written to the other, too, if they overlap."""

        def function(a, b):
            a.add_(1)
            return a * b

        graphed = torch.mps.make_graphed_callables(function, (new(4), new(4)))
        pairs = [torch.ones(8, device="mps") for _ in range(2)]
        offset = {"same": 0, "partly": 2, "apart": 4}[kind]
        results = [
            f(t[:4], t[offset : offset + 4]) for f, t in zip((graphed, function), pairs)
        ]
        self.assertEqual(*results, **EXACT)
        self.assertEqual(*pairs, **EXACT)
        replays = graphed.forward_graph.stats()["replays"]
        self.assertEqual(replays, kind == "apart")

    def test_argument_that_is_a_written_buffer(self):
        class Sum(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(4, device="mps"))

            def forward(self, x):
                self.total.mul_(0.5).add_(1)
                return self.total + x

        module = Sum()
        reference = copy.deepcopy(module)
        torch.mps.make_graphed_callables(module, (new(4),))
        results = [m(m.total) for m in (module, reference)]
        self.assertEqual(*results, **EXACT)

    def test_empty_argument_and_result(self):
        graphed = torch.mps.make_graphed_callables(
            lambda x, y: (x * 2, y * 2), (new(4), new(0))
        )
        x = new(4)
        self.assertEqual(graphed(x, new(0)), (x * 2, new(0)), **EXACT)

    @parametrize("flag", ["conj", "neg", "transposed"])
    def test_view_of_the_static_input(self, flag):
        views = {
            "conj": lambda x: x.conj(),
            "neg": torch._neg_view,
            "transposed": lambda x: x.T,
        }
        dtype = torch.complex64 if flag == "conj" else torch.float
        graphed = torch.mps.make_graphed_callables(
            lambda x: x * 2 + 1, (new(3, 3, dtype=dtype),)
        )
        (static,) = graphed.static_inputs
        static.copy_(new(3, 3, dtype=dtype))
        argument = views[flag](static)
        expected = argument.clone() * 2 + 1
        self.assertEqual(graphed(argument), expected, **EXACT)


instantiate_parametrized_tests(TestModules)
instantiate_parametrized_tests(TestLiveResults)
instantiate_parametrized_tests(TestAutograd)
instantiate_parametrized_tests(TestAliases)

if __name__ == "__main__":
    run_tests()
