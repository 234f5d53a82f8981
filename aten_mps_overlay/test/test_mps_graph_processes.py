# Owner(s): ["module: mps"]

"""Cases for torch.mps graphs among threads, signals and processes."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from test_mps_graph import captured, EXACT, GraphTestCase, TIMEOUT

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

needs_graphed_callables = unittest.skipIf(
    not hasattr(torch.mps, "make_graphed_callables"), "needs make_graphed_callables()"
)


def start_python(program, *args, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # elsewhere `torch` may be the bare sources
        cwd=os.path.dirname(os.path.realpath(__file__)),
        env={**os.environ, **environment},
    )


def finish(child):
    """Exit status, standard output and standard error; a child that hangs fails the case."""
    try:
        out, err = child.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    return child.returncode, out, err


def run_python(program, *args, **environment):
    return finish(start_python(program, *args, **environment))


def resident_bytes():
    kilobytes = subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())])
    return int(kilobytes) * 1024


def block(x):
    """Kernels, graph runs and a blit."""
    y = torch.empty_like(x)
    y.copy_(x)
    return torch.fmax(y @ x, x).softmax(-1) + y


class TestThreads(GraphTestCase):
    def replay_together(self, *replayers, rounds=30, meanwhile=()):
        """Threads that each prepare and replay a graph. Returns the results of each."""

        def repeat(graph, result, prepare, results):
            for i in range(rounds):
                prepare(i)
                graph.replay()
                results.append(result.clone())

        results = [[] for _ in replayers]
        work = [lambda r=r, s=s: repeat(*r, s) for r, s in zip(replayers, results)]
        self.run_together(*work, *meanwhile)
        return results

    @parametrize(
        "meanwhile",
        ["nothing", "synchronize", "item", "empty_cache", "eager", "graphs"],
    )
    def test_two_graphs(self, meanwhile):
        """Two threads replay two graphs, and a third does what may disturb them."""
        cases = []
        for size in (24, 40):
            x = torch.randn(size, size, device="mps")
            inputs = [torch.randn(size, size) for _ in range(30)]
            graph, y = captured(lambda: block(x))
            cases.append((graph, y, lambda i, x=x, inputs=inputs: x.copy_(inputs[i])))
        z = torch.randn(24, 24, device="mps")
        expected = block(z)
        seen = []
        disturb = {
            "nothing": lambda: None,
            "synchronize": torch.mps.synchronize,
            "item": lambda: seen.append(expected.sum().item()),
            "empty_cache": torch.mps.empty_cache,
            "eager": lambda: seen.append(block(z)),
            "graphs": lambda: (
                torch.mps.MPSGraph().reset(),
                torch.mps.graph_pool_handle(),
            ),
        }[meanwhile]

        def third():
            for _ in range(40):
                disturb()

        found = self.replay_together(*cases, meanwhile=[third])
        for (_, _, prepare), results in zip(cases, found):
            for i, result in enumerate(results):
                self.assertEqual(result, block(prepare(i)), **EXACT)
        for value in seen:
            reference = expected if meanwhile == "eager" else expected.sum().item()
            self.assertEqual(value, reference, **EXACT)

    def test_one_graph(self):
        """Replays of one graph by two threads are all counted, and each is done whole."""
        total, twice = torch.zeros(256, device="mps"), torch.zeros(256, device="mps")
        step = torch.ones(256, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            total.add_(step)
            twice.copy_(total * 2)
        total.zero_()
        step.fill_(3)

        def replay():
            for _ in range(100):
                graph.replay()

        self.run_together(replay, replay)
        self.assertEqual(graph.stats()["replays"], 200)
        self.assertEqual(total.cpu(), torch.full((256,), 600.0))
        self.assertEqual(twice.cpu(), torch.full((256,), 1200.0))

    def test_generators(self):
        """Each thread draws from the generator of its graph what eager draws from that."""
        cases = []
        for seed in (1, 2):
            generator = torch.Generator(device="mps").manual_seed(seed)
            graph = torch.mps.MPSGraph()
            with torch.mps.graph(graph):
                y = torch.rand(64, device="mps", generator=generator)
            generator.manual_seed(10 + seed)
            graph.register_generator_state(generator)
            cases.append((graph, y, lambda i: None))
        for seed, results in zip((11, 12), self.replay_together(*cases)):
            twin = torch.Generator(device="mps").manual_seed(seed)
            expected = [torch.rand(64, device="mps", generator=twin) for _ in results]
            self.assertEqual(results, expected, **EXACT)

    def test_host_sources(self):
        """A replay has read the host's memory when it returns, whoever else replays."""
        cases, inputs = [], []
        for scale in (2.0, 3.0):
            host, x = torch.zeros(512), torch.zeros(512, device="mps")
            graph, y = captured(lambda: x.copy_(host) * scale)
            cases.append((graph, y, host.fill_))
            inputs.append(x)
        for scale, results in zip((2.0, 3.0), self.replay_together(*cases)):
            for i, result in enumerate(results):
                self.assertEqual(result.cpu(), torch.full((512,), scale * i))

    @needs_graphed_callables
    def test_backward_passes(self):
        """Graphed callables of two threads, whose backward passes share autograd's thread."""
        linear = [torch.nn.Linear(8, 8).to("mps") for _ in range(2)]
        sample = torch.randn(4, 8, device="mps", requires_grad=True)
        graphed = [
            torch.mps.make_graphed_callables(lambda x, m=m: F.gelu(m(x)), (sample,))
            for m in linear
        ]
        inputs = [
            [torch.randn(4, 8, device="mps") for _ in range(15)] for _ in range(2)
        ]
        results = [[], []]

        def trainer(i):
            def train():
                for x in inputs[i]:
                    x = x.clone().requires_grad_()
                    y = graphed[i](x)
                    results[i].append(
                        (y.detach(), torch.autograd.grad(y.square().sum(), [x])[0])
                    )

            return train

        self.run_together(trainer(0), trainer(1))
        for i in range(2):
            for x, (y, grad) in zip(inputs[i], results[i]):
                x = x.clone().requires_grad_()
                expected = F.gelu(linear[i](x))
                self.assertEqual(y, expected, **EXACT)
                self.assertEqual(
                    grad, torch.autograd.grad(expected.square().sum(), [x])[0], **EXACT
                )

    def test_capture_of_another_thread_raises(self):
        """While one is underway; it goes on, and afterwards the other thread may have its own."""
        x = torch.ones(16, device="mps")
        first, second = torch.mps.MPSGraph(), torch.mps.MPSGraph()

        def refused():
            with self.assertRaisesRegex(RuntimeError, "another thread captures"):
                with torch.mps.graph(second):
                    self.fail("the block of a refused capture ran")

        with torch.mps.graph(first):
            y = x + 1
            self.run_together(refused)
            self.assertTrue(torch.mps.is_current_stream_capturing())
            y = y * 2
        outputs = []

        def allowed():
            with torch.mps.graph(second):
                outputs.append(x - 1)

        self.run_together(allowed)
        x.fill_(5)
        first.replay()
        second.replay()
        self.assertEqual(y.cpu(), torch.full((16,), 12.0))
        self.assertEqual(outputs[0].cpu(), torch.full((16,), 4.0))

    def test_captures_in_turn(self):
        """Threads that try until they get their turn; one begins the moment that another ends."""
        x = torch.randn(16, 16, device="mps")
        captured = []

        def capturer(shift):
            def capture():
                for i in range(10):
                    graph = torch.mps.MPSGraph()
                    while True:
                        try:
                            graph.capture_begin()
                            break
                        except RuntimeError as error:
                            if "another thread captures" not in str(error):
                                raise
                    # shapes that were not used yet take a capture some time
                    y = (x[: i + 2] + shift).exp().sum(0) @ x
                    graph.capture_end()
                    captured.append((graph, y, i, shift))

            return capture

        self.run_together(*(capturer(s) for s in range(3)))
        self.assertEqual(len(captured), 30)
        x.copy_(torch.randn(16, 16))
        noise = [torch.full((16,), 9.0, device="mps") for _ in range(40)]
        for graph, y, i, shift in captured:
            graph.replay()
            self.assertEqual(y, (x[: i + 2] + shift).exp().sum(0) @ x, **EXACT)
        for tensor in noise:
            self.assertEqual(tensor.cpu(), torch.full((16,), 9.0))

    def test_eager_work_begins_as_a_capture_ends(self):
        """What another thread makes from then on has no memory of the graph."""
        x = torch.randn(64, 64, device="mps")
        for i in range(6):
            ended = threading.Event()
            kept = []

            def work(ended=ended, kept=kept):
                while torch._C._mps_isCaptureUnderway():
                    pass
                while len(kept) < 50 or (not ended.is_set() and len(kept) < 2000):
                    kept.append(torch.full((1 << 12,), float(len(kept)), device="mps"))

            def capture(ended=ended, i=i):
                graph = torch.mps.MPSGraph()
                try:
                    graph.capture_begin()
                    for n in range(2, 40):
                        (torch.ones(8 * n + i, 64, device="mps") @ x).exp().sum(0) + x
                    worker = threading.Thread(target=work, daemon=True)
                    worker.start()
                    graph.capture_end()
                finally:
                    ended.set()
                worker.join(TIMEOUT)
                return graph

            graph = capture()
            for _ in range(2):
                graph.replay()
            self.assertGreater(len(kept), 0)
            for number, tensor in enumerate(kept):
                self.assertEqual(tensor.cpu(), torch.full((1 << 12,), float(number)))

    def captures_while(self, work):
        """Captures nothing, again and again, while another thread works; returns the graphs that got something."""
        done = threading.Event()
        graphs = []

        def loop():
            while not done.is_set():
                work()

        def capture():
            try:
                for _ in range(1000):
                    graph = torch.mps.MPSGraph()
                    graph.capture_begin()
                    time.sleep(0)
                    graph.capture_end()
                    stats = graph.stats()
                    if any(
                        stats[kind]
                        for kind in (
                            "kernels",
                            "graph_runs",
                            "copies",
                            "fills",
                            "host_refreshes",
                        )
                    ):
                        graphs.append(graph)
            finally:
                done.set()

        self.run_together(loop, capture, loop)
        return graphs

    def test_reads_while_captures_begin_and_end(self):
        """A read of another thread gives the value, and no graph has it, however it falls."""
        x = torch.full((8,), 3.0, device="mps")
        values = [x[0].item()]
        graphs = self.captures_while(lambda: values.append(x[0].item()))
        self.assertEqual(graphs, [])
        self.assertEqual(set(values), {3.0})

    def test_copies_while_captures_begin_and_end(self):
        """A copy from the host by another thread is in no graph, however it falls."""
        copies = []

        def copy():
            if len(copies) < 4000:
                number = len(copies)
                copies.append((number, torch.full((16,), float(number)).to("mps")))

        graphs = self.captures_while(copy)
        self.assertEqual(graphs, [])
        for number, tensor in copies:
            self.assertEqual(tensor.cpu(), torch.full((16,), float(number)))

    def test_draws_of_another_thread(self):
        """They are no part of a capture, do not refuse it, and its own draws are drawn again."""
        x = torch.zeros(64, device="mps")
        own = torch.Generator(device="mps")
        drawn = []

        def draw():
            drawn.append(torch.rand(8, device="mps", generator=own))
            drawn.append(torch.rand(8, device="mps"))
            own.manual_seed(7)
            torch.mps.manual_seed(3)

        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            self.run_together(draw)
            y = torch.rand(64, device="mps") + x
        kept = [tensor.cpu() for tensor in drawn]
        torch.mps.manual_seed(11)
        x.fill_(2)
        graph.replay()
        state = torch.mps.get_rng_state()
        torch.mps.manual_seed(11)
        self.assertEqual(y, torch.rand(64, device="mps") + 2, **EXACT)
        self.assertEqual(torch.mps.get_rng_state(), state)
        for before, tensor in zip(kept, drawn):
            self.assertEqual(tensor.cpu(), before)

    def test_replay_of_another_thread(self):
        """A graph that another thread replays does not become part of the capture."""
        x, a = torch.ones(8, device="mps"), torch.ones(8, device="mps")
        inner, outer = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        with torch.mps.graph(inner):
            b = a * 2

        def replay():
            a.fill_(3)
            inner.replay()

        with torch.mps.graph(outer):
            y = x + 1
            self.run_together(replay)
        steps = outer.stats()
        self.assertEqual(b.cpu(), torch.full((8,), 6.0))
        x.fill_(4)
        b.zero_()
        outer.replay()
        self.assertEqual(y.cpu(), torch.full((8,), 5.0))
        self.assertEqual(b.cpu(), torch.zeros(8))
        self.assertEqual(steps["graph_runs"], 1)

    @parametrize("work", ["kernel", "graph_run", "copy", "fill", "host_copy"])
    def test_work_of_another_thread(self, work):
        """Among the capture's own work, with the same encoder, it is neither recorded nor given its memory."""
        x = torch.randn(64, 64, device="mps")
        z = torch.randn(64, 64, device="mps")
        host = torch.randn(64, 64)
        actions = {
            "kernel": lambda: torch.fmax(z, z * 2),
            "graph_run": lambda: z @ z,
            "copy": lambda: z.clone(),
            "fill": lambda: torch.zeros_like(z),
            "host_copy": lambda: host.to("mps"),
        }
        expected = actions[work]().cpu()
        results = []
        turn, other = threading.Event(), threading.Event()

        def disturb():
            for _ in range(10):
                turn.wait(TIMEOUT)
                turn.clear()
                results.append(actions[work]())
                other.set()

        def capture():
            graph = torch.mps.MPSGraph()
            with torch.mps.graph(graph):
                y = x
                for _ in range(10):
                    y = torch.fmax(y, x * 0.5)
                    turn.set()
                    other.wait(TIMEOUT)
                    other.clear()
                    y = torch.fmin(y, x) @ x
            for tensor in results:
                self.assertEqual(tensor.cpu(), expected, **EXACT)
                tensor.fill_(9)
            x.copy_(torch.randn(64, 64))
            graph.replay()
            again = x
            for _ in range(10):
                again = torch.fmin(torch.fmax(again, x * 0.5), x) @ x
            self.assertEqual(y, again, **EXACT)

        self.run_together(disturb, capture)
        for tensor in results:
            self.assertEqual(tensor.cpu(), torch.full((64, 64), 9.0))

    def test_backward_of_another_thread(self):
        weight = torch.randn(16, 16, device="mps", requires_grad=True)
        x = torch.randn(16, 16, device="mps")
        other = torch.randn(16, 16, device="mps", requires_grad=True)
        gradients = []

        def backward():
            gradients.append(torch.autograd.grad((other @ other).sum(), other)[0])

        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            loss = (x @ weight).square().sum()
            self.run_together(backward)
            mine = torch.autograd.grad(loss, weight)[0]
        expected = gradients[0].cpu()
        gradients[0].fill_(1)
        x.copy_(torch.randn(16, 16))
        graph.replay()
        loss = (x @ weight).square().sum()
        self.assertEqual(mine, torch.autograd.grad(loss, weight)[0], **EXACT)
        self.assertEqual(gradients[0].cpu(), torch.ones(16, 16))
        backward()
        self.assertEqual(gradients[1].cpu(), expected, **EXACT)

    def test_interrupted_when_another_capture_has_just_ended(self):
        """An exception after the begin ends the capture, and no other one."""
        other, graph = torch.mps.MPSGraph(), torch.mps.MPSGraph()
        begun, goes_on = threading.Event(), threading.Event()

        def capture():
            with torch.mps.graph(other):
                begun.set()
                goes_on.wait(TIMEOUT)

        thread = threading.Thread(target=capture, daemon=True)
        thread.start()
        begun.wait(TIMEOUT)

        class Entered(torch.mps.graph):
            def _begin(self):
                goes_on.set()
                thread.join(TIMEOUT)
                super()._begin()
                raise KeyboardInterrupt

        self.addCleanup(graph._capture_abort)
        with self.assertRaises(KeyboardInterrupt):
            with Entered(graph):
                pass
        self.assertFalse(torch.mps.is_current_stream_capturing())

    def test_dropping_a_graph_does_not_wait(self):
        """Python may drop it while it collects garbage for a caller that holds a lock."""
        x = torch.randn(1500, 1500, device="mps") / 40
        graph, _ = captured(lambda: torch.add(x[0], x[1], alpha=3))
        (x @ x).sum().item()
        begin = time.monotonic()
        (x @ x).sum().item()
        # a second of work for this GPU
        for _ in range(int(1 / (time.monotonic() - begin)) + 1):
            x = x @ x
        waiting = threading.Thread(target=torch.mps.synchronize, daemon=True)
        waiting.start()
        time.sleep(0.3)
        begin = time.monotonic()
        del graph
        self.assertLess(time.monotonic() - begin, 0.2)
        self.assertTrue(waiting.is_alive(), "the GPU was done too early")
        waiting.join(TIMEOUT)

    def test_tensors_that_ask_python(self):
        """A subclass that says where it is, for which it runs operators of the capture."""
        self.assertEqual(run_python(SUBCLASS), (0, "[3.0, 3.0]\n", ""))

    def test_reset_while_another_thread_replays(self):
        """A replay comes before the reset or finds the graph empty."""
        x = torch.ones(64, device="mps")
        graph = torch.mps.MPSGraph()
        for i in range(20):
            x.fill_(i)
            with torch.mps.graph(graph):
                y = x
                for _ in range(20):
                    y = torch.fmax(y, x) + 1
            replayed = threading.Event()

            def replay(replayed=replayed):
                with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
                    while True:
                        graph.replay()
                        replayed.set()

            def reset(replayed=replayed):
                replayed.wait(TIMEOUT)
                graph.reset()

            self.run_together(replay, reset)
            self.assertEqual(y.cpu(), torch.full((64,), i + 20.0))


SUBCLASS = """
import torch

class Asking(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, dispatch_device=True
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.prim.device.default:
            torch.ones(1, device="mps")
            return torch.device("mps:0")
        return function(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))

x = Asking(torch.ones(2, device="mps"))
with torch.mps.graph_capture():
    y = x + 1
x.inner.fill_(2)
torch.mps.graph_replay()
print(y.tolist())
"""


@contextlib.contextmanager
def interrupted_at(instruction):
    """Raises KeyboardInterrupt, as a Ctrl-C does, at the given instruction of torch/mps/graphs.py, counted from 0."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if frame.f_globals is not vars(torch.mps.graphs):
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "opcode"):
            if count == instruction:
                sys.settrace(None)
                raise KeyboardInterrupt
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


# A shell that starts a program in the background lets it ignore Ctrl-C.
HEAR_SIGNALS = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
"""

CAPTURES = """
import torch

x = torch.ones(64, device="mps")
whole = True
for i in range(int(__import__("sys").argv[1])):
    try:
        print("ready", flush=True)
        while True:
            graph = torch.mps.MPSGraph()
            whole = False
            with torch.mps.graph(graph):
                y = x
                for _ in range(10):
                    y = torch.fmax(y, x) + 1
                whole = True
    except KeyboardInterrupt:
        pass
    assert not torch.mps.is_current_stream_capturing(), "the capture is still open"
    if not whole:
        try:
            graph.replay()
        except RuntimeError as error:
            assert "this graph is empty" in str(error), error
        else:
            raise AssertionError("the graph is not empty")
    with torch.mps.graph_capture():
        z = x * 3
    x.fill_(i)
    torch.mps.graph_replay()
    assert z.tolist() == [3.0 * i] * 64
print("done")
"""

REPLAYS = """
import torch

total, step = torch.zeros(64, device="mps"), torch.ones(64, device="mps")
graph = torch.mps.MPSGraph()
with torch.mps.graph(graph):
    total.add_(step)
total.zero_()
for i in range(int(__import__("sys").argv[1])):
    try:
        print("ready", flush=True)
        while True:
            graph.replay()
    except KeyboardInterrupt:
        pass
    assert total.tolist() == [float(graph.stats()["replays"])] * 64
    assert (total * 0 + i).tolist() == [float(i)] * 64
print("done")
"""


class TestInterrupts(GraphTestCase):
    @parametrize(
        "context_manager",
        [
            subtest(lambda: torch.mps.graph(torch.mps.MPSGraph()), name="graph"),
            subtest(torch.mps.graph_capture, name="graph_capture"),
        ],
    )
    def test_at_each_instruction(self, context_manager):
        """The same wherever the context managers are in their own code, the first instruction of each call included."""
        x = torch.ones(16, device="mps")
        instructions, whole = 0, False
        while not whole:
            context = context_manager()
            try:
                with interrupted_at(instructions):
                    with context:
                        y = x + 2
                    whole = True
            except KeyboardInterrupt:
                # here already, not when the exception lets go of the context manager
                self.assertFalse(torch.mps.is_current_stream_capturing())
                with self.assertRaisesRegex(RuntimeError, "this graph is empty"):
                    context.mps_graph.replay()
                instructions += 1
        self.assertGreater(instructions, 20)
        x.fill_(5)
        context.mps_graph.replay()
        self.assertEqual(y.cpu(), torch.full((16,), 7.0))

    @parametrize(
        "program",
        [CAPTURES, REPLAYS],
        name_fn=lambda p: "captures" if p is CAPTURES else "replays",
    )
    def test_signals(self, program):
        """Ctrl-C, wherever it hits: the stream is usable, the graph empty or whole, each replay done or not."""
        rounds = 25
        child = start_python(HEAR_SIGNALS + program, str(rounds))
        pauses = random.Random(0)
        for line in child.stdout:
            if line == "ready\n":
                time.sleep(pauses.uniform(0, 0.02))
                child.send_signal(signal.SIGINT)
            else:
                self.assertEqual(line, "done\n")
        status, _, err = finish(child)
        self.assertEqual((err, status), ("", 0))


class TestMemory(GraphTestCase):
    def test_thousands_of_graphs(self):
        """Graphs made and dropped leave nothing: neither tensors, nor device memory, nor memory of the process."""
        x = torch.randn(32, 32, device="mps")
        host = torch.randn(32, 32)

        def once():
            graph = torch.mps.MPSGraph()
            with torch.mps.graph(graph):
                x.copy_(host)
                y = block(x) + torch.rand(32, 32, device="mps")
            graph.replay()
            return y

        levels = []
        for i in range(2000):
            once()
            if i >= 500 and i % 250 == 249:
                allocated = self.stable_memory_level()
                driver = torch.mps.driver_allocated_memory()
                levels.append((allocated, driver, resident_bytes()))
        allocated, driver, resident = zip(*levels)
        self.assertEqual(set(allocated), {allocated[0]})
        self.assertLessEqual(max(driver), driver[0])
        self.assertLess(max(resident) - resident[0], 4 << 20)

    def test_pressure(self):
        """With little memory allowed, cached blocks are collected all the time: never those of a graph."""
        megabyte = (1 << 20) / torch.mps.recommended_max_memory()
        status, out, err = run_python(
            PRESSURE,
            PYTORCH_MPS_LOW_WATERMARK_RATIO=f"{64 * megabyte:.9f}",
            PYTORCH_MPS_HIGH_WATERMARK_RATIO=f"{256 * megabyte:.9f}",
            # says when it collects
            PYTORCH_DEBUG_MPS_ALLOCATOR="8",
        )
        self.assertEqual((status, out), (0, "done\n"), err)
        self.assertIn("Garbage collected", err)
        self.assertIn("release cached buffers", err)


PRESSURE = """
import torch

# each round leaves blocks of another size in the cache, too small for those of the next round
def press(i):
    blocks = [torch.full((n << 18,), float(i), device="mps") for n in range(4 + i % 5, 11 + i % 5)]
    assert all(bool((b == i).all()) for b in blocks)

x = torch.randn(1 << 19, device="mps")
weight = torch.randn(1 << 19, device="mps")
for i in range(6):
    press(i)
graph = torch.mps.MPSGraph()
with torch.mps.graph(graph, check_input_liveness=False):
    y = (x * weight).exp()
    small = [torch.full((4 << 18,), 1.0, device="mps") for _ in range(3)]
    large = torch.full((11 << 18,), 2.0, device="mps")
    del small
    z = y.log() + large[: 1 << 19]
    del y, large
other = torch.mps.MPSGraph()
with torch.mps.graph(other, pool=graph.pool()):
    w = z * 2 + 1
reference = weight.clone()
del weight
for i in range(5):
    press(i)
    x.copy_(torch.randn(1 << 19))
    graph.replay()
    other.replay()
    press(i + 1)
    expected = (x * reference).exp().log() + 2
    assert torch.equal(z, expected), i
    assert torch.equal(w, expected * 2 + 1), i
try:
    x.repeat(200)
except RuntimeError as error:
    assert "out of memory" in str(error), error
else:
    raise AssertionError("there was memory enough")
x.fill_(1)
graph.replay()
assert torch.equal(z, (x * reference).exp().log() + 2)
print("done")
"""


PREPARED = """
import atexit
import sys

import torch

x = torch.ones(64, 64, device="mps")
graph = torch.mps.MPSGraph()
"""
# by name, how a program ends
ENDINGS = {
    "live_graph": """
with torch.mps.graph_capture():
    y = x + 1
with torch.mps.graph(graph):
    y = torch.fmax(x, x) + torch.rand(64, 64, device="mps")
graph.replay()
torch.mps.synchronize()
""",
    "cycle": """
with torch.mps.graph(graph):
    graph.outputs = [x + 1, graph]
graph.replay()
""",
    "open_capture": """
graph.capture_begin()
y = torch.fmax(x, x) + 1
""",
    "open_block": """
context = torch.mps.graph(graph)
context.__enter__()
y = torch.fmax(x, x) + 1
""",
    "graphed_callable": """
linear = torch.mps.make_graphed_callables(torch.nn.Linear(64, 64).to("mps"), (x,))
linear(x).sum().backward()
""",
    "replays_in_flight": """
with torch.mps.graph(graph):
    y = x
    for _ in range(20):
        y = (y @ x).softmax(-1) + torch.rand(64, 64, device="mps")
for _ in range(30):
    graph.replay()
""",
    "sys_exit_in_capture": """
with torch.mps.graph(graph):
    y = x @ x
    sys.exit(0)
""",
    "replay_at_exit": """
@atexit.register
def last():
    x.fill_(2)
    graph.replay()
    assert y[0, 0].item() == 3.0

with torch.mps.graph(graph):
    y = x + 1
""",
}

REPLAYS_UNDER_A_MODE = """
import threading
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


host = torch.zeros(64, dtype=torch.int32)
x, z = torch.zeros(64, device="mps"), torch.arange(64.0, device="mps")
index = torch.tensor(7, device="mps")
graph = torch.mps.MPSGraph()
with torch.mps.graph(graph):
    x.copy_(host)
    y = x + 1


def replay():
    with Mode():
        for i in range(100):
            torch.full((64,), i, out=host)
            graph.replay()


thread = threading.Thread(target=replay)
thread.start()
while thread.is_alive():
    # waits for the queue, and keeps the interpreter's lock meanwhile
    assert z[index].item() == 7
print(y[0].item())
"""

FORK = """
import gc
import os

import torch

x = torch.ones(16, device="mps")
host = torch.ones(16)
graph = torch.mps.MPSGraph()
with torch.mps.graph(graph):
    x.copy_(host)
    y = x * 2 + torch.rand(16, device="mps") * 0
for i in range(3):
    graph.replay()
    child = os.fork()
    if child == 0:
        # it has its own copy of the host's memory, and may drop the graph that it got
        host.fill_(100)
        if i == 1:
            del graph, y
            gc.collect()
        os._exit(7 + i)
    assert os.waitpid(child, 0)[1] >> 8 == 7 + i
    host.fill_(i)
    graph.replay()
    assert y.tolist() == [2.0 * i] * 16, y
with torch.mps.graph_capture():
    z = y + 1
graph.replay()
torch.mps.graph_replay()
assert z.tolist() == [5.0] * 16, z
print("done")
"""


class TestProcesses(GraphTestCase):
    def test_unused_graph(self):
        """A graph that is never used makes no stream, and so no device."""
        program = """
import ctypes, torch
graph = torch.mps.Graph()
del graph
name = "_ZN2at3mps13MPSStreamImpl7_streamE"
print(ctypes.c_void_p.in_dll(ctypes.CDLL(None), name).value)
"""
        self.assertEqual(run_python(program)[:2], (0, "None\n"))

    @parametrize("ending", list(ENDINGS))
    def test_exit(self, ending):
        """The interpreter ends as if there were no graphs: at once, in silence."""
        if "make_graphed_callables" in ENDINGS[ending] and not hasattr(
            torch.mps, "make_graphed_callables"
        ):
            self.skipTest("needs make_graphed_callables()")
        self.assertEqual(run_python(PREPARED + ENDINGS[ending]), (0, "", ""))

    def test_uncaught_exception(self):
        program = (
            PREPARED
            + "with torch.mps.graph(graph):\n    y = x @ x\n    raise ValueError('mine')\n"
        )
        status, out, err = run_python(program)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"\ATraceback [^\0]*ValueError: mine\n\Z")

    @unittest.skipIf(not hasattr(os, "fork"), "needs fork()")
    def test_fork(self):
        """A child that leaves the device alone takes nothing from its parent."""
        self.assertEqual(run_python(FORK), (0, "done\n", ""))

    def test_replay_under_a_dispatch_mode_while_another_thread_indexes(self):
        """The queue never waits for the interpreter's lock."""
        self.assertEqual(run_python(REPLAYS_UNDER_A_MODE), (0, "100.0\n", ""))


instantiate_parametrized_tests(TestThreads)
instantiate_parametrized_tests(TestInterrupts)
instantiate_parametrized_tests(TestProcesses)

if __name__ == "__main__":
    run_tests()
