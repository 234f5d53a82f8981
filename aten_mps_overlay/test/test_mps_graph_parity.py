# Owner(s): ["module: mps"]

"""Cases for torch.mps graphs with the intents of those that CUDA graphs have in test_cuda.py, where other files have none."""

import copy
import gc
import unittest

from test_mps_graph import captured, EXACT, GraphTestCase

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

# By name, the pool that the second graph of a case gets when the first one was given pool(0).
POOLS = {
    "own": (lambda: None, lambda first: None),
    "of_the_first": (lambda: None, lambda first: first.pool()),
    "by_handle": (torch.mps.graph_pool_handle, lambda first: first.pool()),
}


class TestCapture(GraphTestCase):
    def test_is_current_stream_capturing(self):
        """True for the thread of a capture, and for it alone; and no more after it, however it ended."""
        seen = []
        self.assertFalse(torch.mps.is_current_stream_capturing())
        graph = torch.mps.MPSGraph()
        self.assertFalse(torch.mps.is_current_stream_capturing())
        graph.capture_begin()
        self.assertTrue(torch.mps.is_current_stream_capturing())
        self.run_together(lambda: seen.append(torch.mps.is_current_stream_capturing()))
        graph.capture_end()
        self.assertEqual(seen, [False])
        self.assertFalse(torch.mps.is_current_stream_capturing())
        with self.assertRaises(ValueError):
            with torch.mps.graph_capture():
                raise ValueError
        self.assertFalse(torch.mps.is_current_stream_capturing())

    def test_captured_again_over_its_own_output(self):
        """What the first capture left is an input of the second, which updates it in place."""
        x = torch.full((1000,), 1.0, device="mps")
        graph, y = captured(lambda: x + 10)
        x.fill_(3)
        graph.replay()
        self.assertEqual(y.sum().item(), 13000.0)
        graph.reset()
        graph.capture_begin()
        y.mul_(2)
        z = y + 1
        graph.capture_end()
        self.assertEqual(z.sum().item(), 27000.0)
        y.fill_(5)
        graph.replay()
        self.assertEqual((y.sum().item(), z.sum().item()), (10000.0, 11000.0))

    def test_recurrent_network_with_dropout(self):
        """Its masks are drawn by MPSGraph itself, in eager too: new ones in each call and replay, whatever the state
        of the generator. Where all or nothing is dropped, replays and ordinary calls in turn are the same.
        """
        x = torch.ones(5, 3, 16, device="mps")
        state = torch.mps.get_rng_state()
        model = nn.LSTM(16, 16, 2, dropout=0.5).to("mps")
        self.assertNotEqual(model(x)[0], model(x)[0])
        graph, (y, _) = captured(model, x)
        graph.replay()
        first = y.clone()
        graph.replay()
        self.assertNotEqual(y, first)
        self.assertEqual(torch.mps.get_rng_state(), state)
        for rate in (0.0, 1.0):
            model.dropout = rate
            graph, (y, _) = captured(model, x)
            for _ in range(2):
                x.copy_(torch.randn(5, 3, 16))
                expected = model(x)[0]
                graph.replay()
                self.assertEqual(y, expected, **EXACT)


# without a kernel for MPS at all
MISSING = {
    "poisson": lambda x: torch.poisson(x),
    "cauchy_": lambda x: x.cauchy_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "log_normal_": lambda x: x.log_normal_(),
    "rrelu": lambda x: F.rrelu(x, training=True),
}


class TestRandomNumbers(GraphTestCase):
    @parametrize("name", list(MISSING))
    def test_missing_distribution(self, name):
        """It raises in a capture what it raises in eager, and the capture is dropped."""
        x = torch.rand(8, device="mps")
        with self.assertRaises(NotImplementedError) as eager:
            MISSING[name](x)
        with self.assertRaises(NotImplementedError) as in_capture:
            captured(MISSING[name], x)
        self.assertEqual(str(in_capture.exception), str(eager.exception))

    def test_several_generators(self):
        """Two generators of one's own and the default one draw in turn, and are left where eager leaves them."""

        def draw(first, second):
            return [
                torch.rand(5, device="mps", generator=g)
                for g in (second, first, None, first, second, second)
            ]

        generators = [torch.Generator(device="mps").manual_seed(s) for s in (1, 2)]
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            outputs = draw(*generators)
        twins = [torch.Generator(device="mps") for _ in range(2)]
        for twin, generator in zip(twins, generators):
            generator.manual_seed(generator.initial_seed() + 10)
            twin.set_state(generator.get_state())
        for _ in range(3):
            state = torch.mps.get_rng_state()
            graph.replay()
            left = torch.mps.get_rng_state()
            torch.mps.set_rng_state(state)
            self.assertEqual(outputs, draw(*twins), **EXACT)
            self.assertEqual(torch.mps.get_rng_state(), left)
            for twin, generator in zip(twins, generators):
                self.assertEqual(twin.get_state(), generator.get_state())

    @parametrize("n_graphs,n_generators", [(1, 1), (3, 2), (10, 20)])
    def test_memory(self, n_graphs, n_generators):
        """What generators cost grows with the graphs that draw from them and comes back with these."""
        generators = [
            torch.Generator(device="mps").manual_seed(i) for i in range(n_generators)
        ]

        def make():
            graph = torch.mps.MPSGraph()
            return graph, captured_draw(graph)

        def captured_draw(graph):
            with torch.mps.graph(graph):
                outputs = [torch.rand(1, device="mps", generator=g) for g in generators]
            graph.replay()
            return outputs

        make()
        before = self.stable_memory_level()
        graphs = [make() for _ in range(n_graphs)]
        cost = self.stable_memory_level() - before
        # a state has 28 bytes, a result 4; the allocator rounds up to 256
        self.assertLessEqual(cost, n_graphs * (n_generators * 1024 + (1 << 16)))
        twins = [torch.Generator(device="mps") for _ in generators]
        for twin, generator in zip(twins, generators):
            twin.set_state(generator.get_state())
        for graph, outputs in graphs:
            graph.replay()
            expected = [torch.rand(1, device="mps", generator=g) for g in twins]
            self.assertEqual(outputs, expected, **EXACT)
        del graphs, graph, outputs, expected
        self.assertEqual(self.stable_memory_level(), before)


class TestSeveralGraphs(GraphTestCase):
    @parametrize("pools", list(POOLS))
    def test_three_successive(self, pools):
        """In the order of capture they are right; without a common pool in any that respects what they read."""
        of_first, of_second = POOLS[pools]
        x = torch.ones(1000, device="mps")
        first, (c, d) = captured(
            lambda: (x.clone() + 1, x.clone() + 2), pool=of_first()
        )
        second, e = captured(lambda c: c + 3, c, pool=of_second(first))
        del c
        third, f = captured(lambda: d + 4, pool=of_second(first))
        orders = [(first, second, third)]
        # with a common pool the last output lies where the second graph reads
        if pools == "own":
            orders.append((first, third, second))
        orders.append((first, second, third))
        for i, order in enumerate(orders):
            x.fill_(10 * i)
            for graph in order:
                graph.replay()
            self.assertEqual(e.cpu(), torch.full((1000,), 10.0 * i + 4))
            self.assertEqual(f.cpu(), torch.full((1000,), 10.0 * i + 6))

    # on both sides of the allocator's limits for small, large and very large heaps
    @parametrize("kilobytes", [1, 1023, 1025, 10239, 10241])
    def test_use_of_a_result_after_its_graph(self, kilobytes):
        """The pool is as large as what is in use at one time, also after empty_cache(); then as the result."""
        size = kilobytes * 256
        x = torch.ones(size, device="mps")

        def chain():
            y = x.clone()
            for _ in range(5):
                y = y.clone() + 1
            return y

        before = self.stable_memory_level()
        graph, y = captured(chain)
        cost = self.stable_memory_level() - before
        page = 1 << 14
        self.assertLessEqual(cost, 3 * (x.nbytes + page) + (1 << 16))
        for i in range(2):
            x.fill_(i)
            graph.replay()
            self.assertEqual(y.sum().item(), (5.0 + i) * size)
            torch.mps.empty_cache()
            self.assertEqual(self.stable_memory_level() - before, cost)
        del graph
        gc.collect()
        torch.mps.empty_cache()
        others = [torch.full((size,), 9.0, device="mps") for _ in range(4)]
        self.assertEqual(y.sum().item(), 6.0 * size)
        del others
        self.assertLessEqual(self.stable_memory_level() - before, y.nbytes + 1024)
        del y
        self.assertEqual(self.stable_memory_level(), before)

    def test_handles_are_distinct(self):
        handles = []

        def make():
            handles.extend(torch.mps.graph_pool_handle() for _ in range(50))

        self.run_together(*[make] * 4)
        x = torch.ones(4, device="mps")
        handles += [captured(lambda: x + 1)[0].pool() for _ in range(3)]
        self.assertEqual(len(set(handles)), 203)


class Section(nn.Module):
    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(inputs, hidden), nn.Dropout(0.1))
        self.second = nn.Sequential(nn.Linear(hidden, outputs), nn.Dropout(0.2))

    def forward(self, x):
        return self.second(self.first(x["x"] if isinstance(x, dict) else x))


class Gather(nn.Module):
    """Has no parameters."""

    def forward(self, x):
        given = x["x"] if isinstance(x, dict) else x
        index = (
            torch.arange(given.size(0), device=given.device)
            .view(-1, 1)
            .repeat(1, given.size(1))
        )
        return {"output": torch.gather(given, 0, index)}


@unittest.skipIf(
    not hasattr(torch.mps, "make_graphed_callables"), "needs make_graphed_callables()"
)
class TestSections(GraphTestCase):
    def autocast(self, enabled):
        return torch.autocast("mps", enabled=enabled, cache_enabled=False)

    def make(self, with_amp):
        """A model of three sections, an activation and a loss, graphed; the same as they were; sample inputs."""
        model = nn.Sequential(Section(32, 24, 16), Section(16, 16, 8), Gather()).to(
            "mps"
        )
        control = copy.deepcopy(model)
        x = torch.randn(10, 32, device="mps")
        unused = torch.randn(10, 24, device="mps", requires_grad=True)
        dtype = torch.half if with_amp else torch.float
        h = torch.randn(10, 16, device="mps", dtype=dtype, requires_grad=True)
        h2, out = (
            torch.randn(10, 8, device="mps", dtype=dtype, requires_grad=True)
            for _ in range(2)
        )
        functions = (*model, nn.ReLU(), nn.MSELoss())
        samples = (
            ({"x": x, "unused": unused},),
            (h,),
            (h2,),
            (out,),
            (out, torch.randn(10, 8, device="mps")),
        )
        with self.autocast(with_amp):
            graphed = torch.mps.make_graphed_callables(
                functions, samples, allow_unused_input=True
            )
        return graphed, (*control, nn.ReLU(), nn.MSELoss()), (model, control), unused

    @parametrize("with_amp", [False, True])
    def test_training(self, with_amp):
        """Dropout in sections, nested arguments and results, a part without parameters, activation and loss."""
        graphed, control, models, unused = self.make(with_amp)
        inputs = [torch.rand(10, 32, device="mps") for _ in range(6)]
        targets = [torch.rand(10, 8, device="mps") for _ in range(6)]
        losses = []
        for (first, second, gather, relu, loss_function), model in zip(
            (graphed, control), models
        ):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            torch.manual_seed(5)
            losses.append([])
            for x, target in zip(inputs, targets):
                optimizer.zero_grad(set_to_none=True)
                with self.autocast(with_amp):
                    y = relu(
                        gather(second(first({"x": x, "unused": unused})))["output"]
                    )
                    loss = loss_function(y, target)
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.detach())
        self.assertEqual(losses[0], losses[1], **EXACT)
        for parameter, expected in zip(models[0].parameters(), models[1].parameters()):
            self.assertEqual(parameter, expected, **EXACT)
        self.assertIsNone(unused.grad)
        for model in models:
            model.eval()
        x = {"x": inputs[0]}
        self.assertEqual(models[0](x), models[1](x), **EXACT)

    @parametrize("with_amp", [False, True])
    @parametrize("allow_unused_input", [False, True])
    def test_without_parameters_and_gradients(self, with_amp, allow_unused_input):
        """Nothing has a gradient, so nothing can be missing one; calls in eval mode run as before."""
        model = nn.Sequential(Gather()).to("mps")
        control = copy.deepcopy(model)
        sample = {
            "x": torch.randn(10, 8, device="mps"),
            "unused": torch.randn(4, device="mps"),
        }
        with self.autocast(with_amp):
            model[0] = torch.mps.make_graphed_callables(
                model[0], (sample,), allow_unused_input=allow_unused_input
            )
        for _ in range(4):
            given = {"x": torch.rand(10, 8, device="mps"), "unused": sample["unused"]}
            with self.autocast(with_amp):
                self.assertEqual(model(given), control(given), **EXACT)
        model.eval()
        control.eval()
        given = {"x": torch.rand(3, 8, device="mps")}
        self.assertEqual(model(given), control(given), **EXACT)

    def test_several_calls_with_one_pool(self):
        """Modules graphed by calls of their own, with one pool, and used in that order."""
        pool = torch.mps.graph_pool_handle()
        models, graphed = [], []
        for _ in range(3):
            model = nn.Sequential(
                nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128)
            ).to("mps")
            models.append(model)
            sample = torch.randn(64, 32, device="mps")
            graphed.append(
                torch.mps.make_graphed_callables(
                    copy.deepcopy(model), (sample,), pool=pool
                )
            )
        for _ in range(2):
            for model, twin in zip(models, graphed):
                x = torch.randn(64, 32, device="mps")
                y, got = model(x), twin(x)
                y.norm().backward()
                got.norm().backward()
                self.assertEqual(got, y, **EXACT)
                for p, q in zip(model.parameters(), twin.parameters()):
                    self.assertEqual(q.grad, p.grad, **EXACT)
                    self.assertNotEqual(p.data_ptr(), q.data_ptr())
                    self.assertNotEqual(p.grad.data_ptr(), q.grad.data_ptr())


CAPTURABLE = [info.optim_cls.__name__ for info in optim_db if info.has_capturable_arg]
FUSED = {
    info.optim_cls.__name__: info
    for info in optim_db
    if "mps" in info.supports_fused_on
}


class TestOptimizers(GraphTestCase):
    def make(self, kind, kwargs, start, **more):
        weights = [nn.Parameter(w.clone()) for w in start]
        for weight in weights:
            weight.grad = torch.zeros_like(weight)
        return weights, getattr(torch.optim, kind)(weights, **{**kwargs, **more})

    def step(self, weights, grads, step):
        for weight, grad in zip(weights, grads):
            weight.grad.copy_(grad)
        step()

    @parametrize("kind", CAPTURABLE)
    @parametrize("second", [False, True])
    def test_parameter_groups(self, kind, second):
        """What counts is the `capturable` of each group."""
        grads = [[torch.randn(1, device="mps") for _ in range(2)] for _ in range(5)]

        def make(*capturable):
            weights = [nn.Parameter(torch.ones(1, device="mps")) for _ in range(2)]
            for weight in weights:
                weight.grad = torch.zeros_like(weight)
            groups = [
                {"params": [w], "capturable": c} for w, c in zip(weights, capturable)
            ]
            return weights, getattr(torch.optim, kind)(groups)

        control, reference = make(False, False)
        weights, optimizer = make(True, second)
        for grad in grads[:3]:
            self.step(control, grad, reference.step)
            self.step(weights, grad, optimizer.step)
        graph = torch.mps.MPSGraph()
        if not second:
            with self.assertRaisesRegex(RuntimeError, "counts its steps on the host"):
                with torch.mps.graph(graph):
                    optimizer.step()
            return

        def capture():
            with torch.mps.graph(graph):
                optimizer.step()

        for grad, step in zip(grads[3:], (capture, graph.replay)):
            self.step(control, grad, reference.step)
            self.step(weights, grad, step)
        self.assertEqual(weights, control)

    @parametrize("kind", list(FUSED))
    def test_fused_step_with_scale_raises(self, kind):
        """The fused steps of MPS don't take what a gradient scaler gives them; a capture of one is dropped."""
        weights, optimizer = self.make(
            kind, {}, [torch.ones(4, device="mps")], lr=0.1, fused=True
        )
        optimizer.step()
        before = weights[0].detach().cpu()
        optimizer.grad_scale = torch.ones((), device="mps")
        optimizer.found_inf = torch.zeros((), device="mps")
        raised = []
        for attempt in (optimizer.step, lambda: captured(optimizer.step)):
            with self.assertRaises((RuntimeError, AssertionError)) as context:
                attempt()
            raised.append((type(context.exception), str(context.exception)))
        self.assertEqual(raised[0], raised[1])
        self.assertEqual(weights[0].cpu(), before)
        del optimizer.grad_scale, optimizer.found_inf
        graph, _ = captured(optimizer.step)
        before = weights[0].detach().cpu()
        weights[0].grad.fill_(1)
        graph.replay()
        self.assertNotEqual(weights[0].cpu(), before)

    def test_scaled_gradients(self):
        """The scale lies on the device, so a graphed backward pass follows it, and overflows where eager does."""
        scaler = torch.amp.GradScaler("mps", init_scale=4.0)
        weight = torch.ones(100, device="mps", requires_grad=True)
        x = torch.ones(100, device="mps")

        def backward():
            scaler.scale((weight.half() * x).sum()).backward()

        backward()
        weight.grad = None
        graph, _ = captured(backward)
        for value, scale, gradient in (
            (5, 4, 20.0),
            (20000, 4, float("inf")),
            (5, 2, 10.0),
            (40000, 1, 40000.0),
        ):
            x.fill_(value)
            scaler._scale.fill_(scale)
            graph.replay()
            self.assertEqual(weight.grad.cpu(), torch.full((100,), gradient), **EXACT)


instantiate_parametrized_tests(TestRandomNumbers)
instantiate_parametrized_tests(TestSeveralGraphs)
instantiate_parametrized_tests(TestSections)
instantiate_parametrized_tests(TestOptimizers)

if __name__ == "__main__":
    run_tests()
