# Owner(s): ["module: mps"]

"""Cases for torch.mps graphs with the intents of those that CUDA graphs have in test_cuda.py, where other files have
none. The number in a docstring is the promise that the case guards: 2 whose work is recorded, 3 what is recorded,
9 exceptions, 11 frozen values, 12 the pool, 15 memory given back, 16 shared pools, 17 order, 19 random numbers,
20 in-place updates.
"""

import copy
import gc
import threading
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

# By name, the pool that the second graph of a case gets when the first one was given pool(0).
POOLS = {
    "own": (lambda: None, lambda first: None),
    "of_the_first": (lambda: None, lambda first: first.pool()),
    "by_handle": (torch.mps.graph_pool_handle, lambda first: first.pool()),
}


def settled():
    """Bytes allocated once the GPU is done and garbage is gone."""
    level = -1
    while level != torch.mps.current_allocated_memory():
        level = torch.mps.current_allocated_memory()
        gc.collect()
        # completion handlers free memory, in order; the wait includes this number's, which is the last
        torch.ones(1, device="mps").add(1.0, alpha=2.0)
        torch.mps.synchronize()
    return level


def captured(function, *args, pool=None):
    graph = torch.mps.MPSGraph()
    with torch.mps.graph(graph, pool=pool):
        outputs = function(*args)
    return graph, outputs


def with_temporaries(x, number):
    return (x.clone() + number) + (x.clone() + number)


class ParityTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def tearDown(self):
        self.assertFalse(torch.mps.is_current_stream_capturing())
        super().tearDown()


class TestCapture(ParityTestCase):
    def test_is_current_stream_capturing(self):
        """2, 9: true for the thread of a capture, and for it alone; and no more after it, however it ended."""
        seen = []
        self.assertFalse(torch.mps.is_current_stream_capturing())
        graph = torch.mps.MPSGraph()
        self.assertFalse(torch.mps.is_current_stream_capturing())
        graph.capture_begin()
        self.assertTrue(torch.mps.is_current_stream_capturing())
        thread = threading.Thread(
            target=lambda: seen.append(torch.mps.is_current_stream_capturing())
        )
        thread.start()
        thread.join()
        graph.capture_end()
        self.assertEqual(seen, [False])
        self.assertFalse(torch.mps.is_current_stream_capturing())
        with self.assertRaises(ValueError):
            with torch.mps.graph_capture():
                raise ValueError
        self.assertFalse(torch.mps.is_current_stream_capturing())

    def test_chain(self):
        """3, 12: begin, ten additions, end, replay."""
        x = torch.full((1000,), 1.0, device="mps")
        torch.mps.empty_cache()
        graph = torch.mps.MPSGraph()
        graph.capture_begin()
        y = x
        for _ in range(10):
            y = y + 1
        graph.capture_end()
        x.fill_(5)
        graph.replay()
        self.assertEqual(y.sum().item(), 15000.0)

    def test_captured_again_over_its_own_output(self):
        """15, 20: what the first capture left is an input of the second, which updates it in place."""
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

    def test_refused_capture_changes_nothing(self):
        """7, 16: the graph that is being captured keeps its pool, and another one has none yet."""
        x = torch.ones(1 << 12, device="mps")
        handle = torch.mps.graph_pool_handle()
        graph, other = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(graph, pool=handle):
            y = x + 1
            for refused in (graph, other):
                with self.assertRaisesRegex(RuntimeError, "can't be nested"):
                    refused.capture_begin()
            y = y * 2
        self.assertEqual(graph.pool(), handle)
        self.assertGreaterEqual(graph.stats()["pool_bytes"], x.nbytes)
        with self.assertRaisesRegex(RuntimeError, "before a capture"):
            other.pool()
        x.fill_(4)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((1 << 12,), 10.0))

    @parametrize("mode", ["global", "relaxed"])
    def test_allocations_of_another_thread(self, mode):
        """2, 12: they are no error in any mode, have ordinary memory, and no replay writes to them."""
        x = torch.ones(1 << 18, device="mps")
        made = []

        def work():
            raw = torch.empty(1 << 18, device="mps")
            raw.copy_(x * 3)
            made.append(raw)

        before = settled()
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph, capture_error_mode=mode):
            y = x + x + x
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        # of two temporaries and the result
        self.assertLessEqual(graph.stats()["pool_bytes"], 3 * y.nbytes)
        held = settled() - before - graph.stats()["pool_bytes"] - made[0].nbytes
        self.assertLess(abs(held), 1 << 16)
        x.fill_(2)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((1 << 18,), 6.0))
        self.assertEqual(made[0].cpu(), torch.full((1 << 18,), 3.0))
        del graph, y
        self.assertEqual(made[0].cpu(), torch.full((1 << 18,), 3.0))

    def test_recurrent_network_with_dropout(self):
        """3, 19: its masks are drawn by MPSGraph itself, in eager too: new ones in each call and replay, whatever the state
        of the generator. Where all or nothing is dropped, replays and ordinary calls in turn are the same."""
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
                self.assertEqual(y, expected, atol=0, rtol=0)


FUNCTIONS = {
    "dropout": lambda x: F.dropout(x, 0.1),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.1, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(
        x.view(100, 100), 0.1, training=True
    ).view(-1),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x.view(100, 100)).view(-1),
}
DISTRIBUTIONS = {
    "bernoulli": lambda x: torch.bernoulli(x),
    "multinomial": lambda x: torch.multinomial(x[:100], 50, True).float(),
    "normal_of_tensor_and_number": lambda x: torch.normal(x + 1, 1.0),
    "normal_of_tensors": lambda x: torch.normal(x + 1, x),
    "rand": lambda x: torch.rand(x.shape, device="mps"),
    "randint": lambda x: torch.randint(0, 3, x.shape, device="mps", dtype=torch.float),
    "randn": lambda x: torch.randn(x.shape, device="mps"),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(x),
    "exponential_": lambda x: torch.empty_like(x).exponential_(),
    "normal_": lambda x: torch.empty_like(x).normal_(),
    "random_": lambda x: torch.empty_like(x).random_(),
    "uniform_": lambda x: torch.empty_like(x).uniform_(),
}
# without a kernel for MPS at all
MISSING = {
    "poisson": lambda x: torch.poisson(x),
    "cauchy_": lambda x: x.cauchy_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "log_normal_": lambda x: x.log_normal_(),
    "rrelu": lambda x: F.rrelu(x, training=True),
}


class TestRandomNumbers(ParityTestCase):
    @parametrize("name", list(FUNCTIONS))
    def test_function(self, name):
        """19: graphed, eager and graphed calls, of which each works on what the one before gave, from several seeds."""
        function = FUNCTIONS[name]
        start = torch.randn(10000, device="mps")
        x = start.clone()
        graph, y = captured(lambda: function(function(x)))
        ends = []
        for seed in (5, 6, 128, 9999):
            torch.mps.manual_seed(seed)
            expected = start
            for _ in range(6):
                expected = function(expected)
            torch.mps.manual_seed(seed)
            x.copy_(start)
            graph.replay()
            x.copy_(function(function(y)))
            graph.replay()
            self.assertEqual(y, expected, atol=0, rtol=0)
            ends.append(y.clone())
        for end in ends[1:]:
            self.assertNotEqual(end, ends[0])

    @parametrize("name", list(DISTRIBUTIONS))
    def test_distribution(self, name):
        """19: a replay goes on where eager draws stopped, from several seeds."""
        draw = DISTRIBUTIONS[name]
        x = torch.rand(10000, device="mps")
        graph, (first, second) = captured(lambda: (draw(x), draw(x)))
        seen = []
        for seed in (6, 314, 271):
            x.copy_(torch.rand(10000))
            torch.mps.manual_seed(seed)
            expected = [draw(x), draw(x), draw(x)]
            torch.mps.manual_seed(seed)
            dummy = draw(x)
            first.fill_(-7)
            second.fill_(-7)
            graph.replay()
            self.assertEqual([dummy, first, second], expected, atol=0, rtol=0)
            seen.append(first.clone())
        self.assertNotEqual(seen[0], seen[1])

    @parametrize("name", list(MISSING))
    def test_missing_distribution(self, name):
        """9: it raises in a capture what it raises in eager, and the capture is dropped."""
        x = torch.rand(8, device="mps")
        with self.assertRaises(NotImplementedError) as eager:
            MISSING[name](x)
        with self.assertRaises(NotImplementedError) as in_capture:
            captured(MISSING[name], x)
        self.assertEqual(str(in_capture.exception), str(eager.exception))

    def test_several_generators(self):
        """19: two generators of one's own and the default one draw in turn, and are left where eager leaves them."""

        def draw(first, second):
            return [
                torch.rand(5, device="mps", generator=g)
                for g in (second, first, None, first, second, second)
            ]

        generators = [torch.Generator(device="mps").manual_seed(s) for s in (1, 2)]
        graph = torch.mps.MPSGraph()
        for generator in generators:
            graph.register_generator_state(generator)
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
            self.assertEqual(outputs, draw(*twins), atol=0, rtol=0)
            self.assertEqual(torch.mps.get_rng_state(), left)
            for twin, generator in zip(twins, generators):
                self.assertEqual(twin.get_state(), generator.get_state())

    @parametrize("n_graphs,n_generators", [(1, 1), (3, 2), (10, 20)])
    def test_memory(self, n_graphs, n_generators):
        """15, 19: what generators cost grows with the graphs that draw from them and comes back with these."""
        generators = [
            torch.Generator(device="mps").manual_seed(i) for i in range(n_generators)
        ]

        def make():
            graph = torch.mps.MPSGraph()
            for generator in generators:
                graph.register_generator_state(generator)
            return graph, captured_draw(graph)

        def captured_draw(graph):
            with torch.mps.graph(graph):
                outputs = [torch.rand(1, device="mps", generator=g) for g in generators]
            graph.replay()
            return outputs

        make()
        before = settled()
        graphs = [make() for _ in range(n_graphs)]
        cost = settled() - before
        # a state has 28 bytes, a result 4; the allocator rounds up to 256
        self.assertLessEqual(cost, n_graphs * (n_generators * 1024 + (1 << 16)))
        twins = [torch.Generator(device="mps") for _ in generators]
        for twin, generator in zip(twins, generators):
            twin.set_state(generator.get_state())
        for graph, outputs in graphs:
            graph.replay()
            expected = [torch.rand(1, device="mps", generator=g) for g in twins]
            self.assertEqual(outputs, expected, atol=0, rtol=0)
        del graphs, graph, outputs, expected
        self.assertEqual(settled(), before)


class TestSeveralGraphs(ParityTestCase):
    @parametrize("pools", list(POOLS))
    def test_two_successive(self, pools):
        """16, 17: the second goes on from what the first leaves, with unrelated work between the replays."""
        of_first, of_second = POOLS[pools]
        x = torch.ones(1000, device="mps")

        def first_part():
            y = x.clone()
            for _ in range(5):
                y = with_temporaries(y, 1)
            return y

        def second_part():
            z = y
            for _ in range(5):
                z = with_temporaries(z, 1)
            return z

        first, y = captured(first_part, pool=of_first())
        second, z = captured(second_part, pool=of_second(first))
        # 1 → 94 → 3070, 3 → 158 → 5118
        for start, end in ((1.0, 3070.0), (3.0, 5118.0)):
            x.fill_(start)
            other = torch.ones(1000, device="mps")
            for graph in (first, second):
                other = with_temporaries(with_temporaries(other, 3), 3)
                graph.replay()
            other = with_temporaries(with_temporaries(other, 3), 3)
            self.assertEqual(z.cpu(), torch.full((1000,), end))
            self.assertEqual(other.cpu(), torch.full((1000,), 442.0))

    def test_shared_memory_is_less(self):
        """16: for the same captures."""
        x = torch.ones(1 << 18, device="mps")
        cost = {}
        for pools, (of_first, of_second) in POOLS.items():
            before = settled()
            first, y = captured(
                lambda: with_temporaries(with_temporaries(x, 1), 1), pool=of_first()
            )
            second, z = captured(
                lambda: with_temporaries(with_temporaries(x, 2), 2),
                pool=of_second(first),
            )
            cost[pools] = settled() - before
            x.fill_(3)
            first.replay()
            second.replay()
            self.assertEqual((y[0].item(), z[0].item()), (18.0, 24.0))
            del first, second, y, z
            self.assertEqual(settled(), before)
        self.assertEqual(cost["of_the_first"], cost["by_handle"])
        self.assertLessEqual(cost["of_the_first"], cost["own"] - x.nbytes)

    @parametrize("pools", list(POOLS))
    def test_three_successive(self, pools):
        """16: in the order of capture they are right; without a common pool in any that respects what they read."""
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

    @parametrize("pools", list(POOLS))
    def test_replays_from_two_threads(self, pools):
        """16, 17: at once with pools of their own, one after the other with a common one, and no wait for the GPU."""
        of_first, of_second = POOLS[pools]
        x = torch.ones(100000, device="mps")

        def chain(number):
            y = x.clone()
            for _ in range(5):
                y = with_temporaries(y, number)
            return y

        first, y = captured(chain, 1, pool=of_first())
        second, z = captured(chain, 2, pool=of_second(first))
        for start, ends in ((1.0, (94.0, 156.0)), (2.0, (126.0, 188.0))):
            x.fill_(start)
            turn = threading.Event()

            def run_first(turn=turn):
                first.replay()
                turn.set()

            def run_second(turn=turn):
                if pools != "own":
                    turn.wait()
                second.replay()

            threads = [threading.Thread(target=f) for f in (run_second, run_first)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(y.cpu(), torch.full((100000,), ends[0]))
            self.assertEqual(z.cpu(), torch.full((100000,), ends[1]))

    # on both sides of the allocator's limits for small, large and very large heaps
    @parametrize("kilobytes", [1, 1023, 1025, 10239, 10241])
    def test_use_of_a_result_after_its_graph(self, kilobytes):
        """12, 15: the pool is as large as what is in use at one time, also after empty_cache(); then as the result."""
        size = kilobytes * 256
        x = torch.ones(size, device="mps")

        def chain():
            y = x.clone()
            for _ in range(5):
                y = y.clone() + 1
            return y

        before = settled()
        graph, y = captured(chain)
        cost = settled() - before
        page = 1 << 14
        self.assertLessEqual(cost, 3 * (x.nbytes + page) + (1 << 16))
        for i in range(2):
            x.fill_(i)
            graph.replay()
            self.assertEqual(y.sum().item(), (5.0 + i) * size)
            torch.mps.empty_cache()
            self.assertEqual(settled() - before, cost)
        del graph
        gc.collect()
        torch.mps.empty_cache()
        others = [torch.full((size,), 9.0, device="mps") for _ in range(4)]
        self.assertEqual(y.sum().item(), 6.0 * size)
        del others
        self.assertLessEqual(settled() - before, y.nbytes + 1024)
        del y
        self.assertEqual(settled(), before)

    def test_handles_are_distinct(self):
        """16: also those made by several threads at once, and those of graphs that were given none."""
        handles = []

        def make():
            handles.extend(torch.mps.graph_pool_handle() for _ in range(50))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
class TestSections(ParityTestCase):
    def autocast(self, enabled, cache=False):
        return torch.autocast("mps", enabled=enabled, cache_enabled=cache)

    def make(self, with_amp, cache=False, allow_unused_input=True):
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
        with self.autocast(with_amp, cache):
            graphed = torch.mps.make_graphed_callables(
                functions, samples, allow_unused_input=allow_unused_input
            )
        return graphed, (*control, nn.ReLU(), nn.MSELoss()), (model, control), unused

    @parametrize("with_amp", [False, True])
    def test_training(self, with_amp):
        """19, 20: dropout in sections, nested arguments and results, a part without parameters, activation and loss."""
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
        self.assertEqual(losses[0], losses[1], atol=0, rtol=0)
        for parameter, expected in zip(models[0].parameters(), models[1].parameters()):
            self.assertEqual(parameter, expected, atol=0, rtol=0)
        self.assertIsNone(unused.grad)
        for model in models:
            model.eval()
        x = {"x": inputs[0]}
        self.assertEqual(models[0](x), models[1](x), atol=0, rtol=0)

    def test_refusals(self):
        """9: inputs without a part in the outputs unless that is said."""
        with self.assertRaisesRegex(RuntimeError, "has no part in the outputs"):
            self.make(with_amp=False, allow_unused_input=False)
        self.assertFalse(torch.mps.is_current_stream_capturing())

    @parametrize("with_amp", [False, True])
    @parametrize("allow_unused_input", [False, True])
    def test_without_parameters_and_gradients(self, with_amp, allow_unused_input):
        """20: nothing has a gradient, so nothing can be missing one; calls in eval mode run as before."""
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
                self.assertEqual(model(given), control(given), atol=0, rtol=0)
        model.eval()
        control.eval()
        given = {"x": torch.rand(3, 8, device="mps")}
        self.assertEqual(model(given), control(given), atol=0, rtol=0)

    def test_several_calls_with_one_pool(self):
        """16: modules graphed by calls of their own, with one pool, and used in that order."""
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
                self.assertEqual(got, y, atol=0, rtol=0)
                for p, q in zip(model.parameters(), twin.parameters()):
                    self.assertEqual(q.grad, p.grad, atol=0, rtol=0)
                    self.assertNotEqual(p.data_ptr(), q.data_ptr())
                    self.assertNotEqual(p.grad.data_ptr(), q.grad.data_ptr())


CAPTURABLE = {
    info.optim_cls.__name__: info for info in optim_db if info.has_capturable_arg
}
FUSED = {
    info.optim_cls.__name__: info
    for info in optim_db
    if "mps" in info.supports_fused_on
}


class TestOptimizers(ParityTestCase):
    def make(self, kind, kwargs, start, **more):
        weights = [nn.Parameter(w.clone()) for w in start]
        for weight in weights:
            weight.grad = torch.zeros_like(weight)
        return weights, getattr(torch.optim, kind)(weights, **{**kwargs, **more})

    def step(self, weights, grads, step):
        for weight, grad in zip(weights, grads):
            weight.grad.copy_(grad)
        step()

    @parametrize("kind", list(CAPTURABLE))
    def test_all_inputs(self, kind):
        """11, 20: each configuration that upstream tests, against the same optimizer that counts on the host; and that
        `capturable` changes nothing where no graph is."""
        start = [torch.randn(i + 5, i + 5, device="mps") for i in range(2)] + [
            torch.randn((), device="mps")
        ]
        grads = [[torch.randn_like(w) for w in start] for _ in range(5)]
        for case in CAPTURABLE[kind].optim_inputs_func(device="mps"):
            kwargs = {
                k: v
                for k, v in case.kwargs.items()
                if k not in ("capturable", "differentiable")
            }
            # tensors here need capturable=True
            kwargs["lr"] = 0.1
            if kind in ("Adam", "AdamW"):
                kwargs["betas"] = (0.9, 0.99)
            with self.subTest(case=case.desc):
                control, reference = self.make(kind, kwargs, start)
                eager, plain = self.make(kind, kwargs, start, capturable=True)
                replayed, optimizer = self.make(kind, kwargs, start, capturable=True)
                graph = torch.mps.MPSGraph()

                def capture(graph=graph, optimizer=optimizer):
                    with torch.mps.graph(graph):
                        optimizer.step()

                steps = [
                    optimizer.step,
                    optimizer.step,
                    capture,
                    graph.replay,
                    graph.replay,
                ]
                for grad, step in zip(grads, steps):
                    self.step(control, grad, reference.step)
                    self.step(eager, grad, plain.step)
                    self.step(replayed, grad, step)
                for a, b, c in zip(replayed, eager, control):
                    self.assertEqual(a, b, atol=0, rtol=0)
                    self.assertEqual(b, c)

    @parametrize("kind", list(CAPTURABLE))
    @parametrize("second", [False, True])
    def test_parameter_groups(self, kind, second):
        """9, 20: what counts is the `capturable` of each group."""
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
        """9: the fused steps of MPS don't take what a gradient scaler gives them; a capture of one is dropped."""
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
        """20: the scale lies on the device, so a graphed backward pass follows it, and overflows where eager does."""
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
            self.assertEqual(
                weight.grad.cpu(), torch.full((100,), gradient), atol=0, rtol=0
            )


instantiate_parametrized_tests(TestCapture)
instantiate_parametrized_tests(TestRandomNumbers)
instantiate_parametrized_tests(TestSeveralGraphs)
instantiate_parametrized_tests(TestSections)
instantiate_parametrized_tests(TestOptimizers)

if __name__ == "__main__":
    run_tests()
