# Owner(s): ["module: mps"]

"""Every message of torch.mps graphs, word for word: what happened, to which tensor or operator, and what to do."""

import copy
import functools
import os
import pickle
import re
import tempfile
import unittest
import unittest.mock
import warnings

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, TestCase
from torch.testing._internal.two_tensor import TwoTensor


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")


def captured(block, **options):
    graph = torch.mps.MPSGraph()
    with torch.mps.graph(graph, **options):
        block()
    return graph


# What a message says of the line of the program: of this file, or of the one that called a custom operator.
LINE = re.compile(r"\bat \S+[/\\]test_mps_graph_errors\.py:\d+ \((\S+)\)")


class MessageTestCase(TestCase):
    def setUp(self):
        super().setUp()
        self.x = torch.arange(6.0, device="mps").reshape(2, 3)

    def assert_raises(self, kind, function, expected):
        with self.assertRaises(kind) as raised:
            function()
        text = LINE.sub(r"at FILE:LINE (\1)", str(raised.exception))
        self.assertEqual(text, " ".join(expected.split()))

    def assert_fails(self, function, expected):
        self.assert_raises(RuntimeError, function, expected)

    def assert_refused(self, block, expected):
        self.assert_fails(lambda: captured(block), expected)

    def assert_warns(self, function, expected):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
        self.assertEqual(len(caught), 1)
        text = str(caught[0].message).split(" (Triggered")[0]
        text = LINE.sub(r"at FILE:LINE (\1)", text)
        self.assertEqual(text, " ".join(expected.split()))


class TestCaptureMessages(MessageTestCase):
    def test_write_without_an_operator(self):
        host = torch.zeros(3)

        def block():
            host.to("mps")
            host.numpy()[0] = 1

        self.assert_refused(
            block,
            """torch.mps graph capture: the block changed a CPU tensor without an operator, as through numpy, after it had
            copied the tensor to the device, and a replay would copy the last values each time. Write with an operator, or
            before the capture. The capture was dropped.""",
        )

    def test_optimizer_of_two_devices(self):
        weights = [torch.nn.Parameter(torch.ones(3, device=d)) for d in ("mps", "cpu")]
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        self.assert_refused(
            torch.optim.SGD(weights).step,
            """torch.mps graph capture: SGD has parameters of the MPS device and of others, and replays would update only
            the first. Call step() outside of the capture, or give each device an optimizer of its own.""",
        )

    def test_host_read(self):
        self.assert_refused(
            lambda: self.x.sum().item(),
            """torch.mps graph capture: the host read device data: the Float tensor of shape [], in aten::item, at
            FILE:LINE (<lambda>). A replay can't read it again. Move the read (.item(), .cpu(), printing, a tensor as a
            condition, ...) out of the capture, or pass freeze_host_reads=True to fix the value.""",
        )

    def test_frozen_host_read(self):
        self.assert_warns(
            lambda: captured(
                lambda: (self.x.cpu(), self.x.cpu()), freeze_host_reads=True
            ),
            """torch.mps graph capture: the host read device data: the Float tensor of shape [2, 3], in aten::to, at
            FILE:LINE (<lambda>). With freeze_host_reads=True every replay uses the value of the capture. Later reads
            give no warning.""",
        )

    def test_fallback(self):
        self.assert_refused(
            lambda: torch.linalg.svd(self.x),
            """torch.mps graph capture: the operator 'aten::linalg_svd' falls back to the CPU, where a replay can't
            run it, at FILE:LINE (<lambda>). Move it out of the capture, or use torch.compile(backend="mpsgraphs"),
            which splits the model there.""",
        )

    def test_nested_capture(self):
        graph = torch.mps.MPSGraph()
        self.assert_refused(
            graph.capture_begin,
            "torch.mps graph capture: another capture is underway; captures can't be nested.",
        )
        with torch.mps.graph(graph):
            self.assert_fails(
                graph.capture_begin,
                "torch.mps graph capture: this graph is being captured already; captures can't be nested.",
            )

    def test_profiler(self):
        self.assert_refused(
            torch.mps.profiler.start,
            "torch.mps graph capture: the profiler was started. Profiling and graph capture exclude each other.",
        )
        with torch.mps.profiler.profile():
            self.assert_refused(
                lambda: None,
                "torch.mps graph capture: the MPS profiler is on. Stop it before the capture begins.",
            )

    def test_events(self):
        event, other = torch.mps.event.Event(), torch.mps.event.Event()
        other.record()
        for use, expected in (
            (
                event.record,
                "an event was recorded, which a replay would not do. Record events outside of the capture.",
            ),
            (
                other.wait,
                "the stream waits for an event, which a replay would not do. Wait outside of the capture.",
            ),
            (
                other.query,
                """the host waits for an event or asks about it, which a replay would not do. Do so outside of the
                capture.""",
            ),
        ):
            place = "That was at FILE:LINE (captured)."
            self.assert_refused(use, f"torch.mps graph capture: {expected} {place}")

    def test_second_capture(self):
        graph = captured(lambda: self.x + 1)
        self.assert_fails(
            graph.capture_begin,
            """torch.mps graph capture: this graph already holds a capture. Call reset() first, or capture into
            another graph.""",
        )

    def test_replay_with_the_pool_of_the_capture(self):
        inner = captured(lambda: self.x * 2)
        self.assert_fails(
            lambda: captured(inner.replay, pool=inner.pool()),
            """torch.mps graph replay: the memory of the graph is in the pool of a capture that is underway. The replay
            would overwrite memory of the block. Replay the graph before or after the capture, or capture one of the two
            graphs with another pool.""",
        )

    def test_moved_in_the_block(self):
        def block():
            self.x + 1
            self.x.data = torch.zeros(9, device="mps")

        self.assert_refused(
            block,
            """torch.mps graph capture: the block changed the Float tensor of shape [2, 3] with a storage of 24 bytes,
            first used by aten::add at FILE:LINE (block), which now has shape [9] and another storage of 36 bytes. Do
            that before the capture. The capture was dropped.""",
        )

    def test_generators(self):
        self.assert_refused(
            lambda: torch.rand(
                2, device="mps", generator=torch.Generator(device="mps")
            ),
            """torch.mps graph capture: random numbers were drawn from a generator that the block made, in aten::rand, and
            each run of the block would make a new one. Make it before the capture.""",
        )
        generator = torch.Generator(device="mps")
        self.assert_fails(
            lambda: torch.mps.make_graphed_callables(
                lambda x: torch.rand(2, device="mps", generator=generator), (self.x,)
            ),
            """torch.mps graph capture: random numbers were drawn from a generator other than the default one, in
            aten::rand. Graphed callables and compiled functions draw from the default generator alone.""",
        )
        self.assert_refused(
            lambda: torch.mps.manual_seed(1),
            """torch.mps graph capture: a generator was seeded or given a state, which a replay would not do. Do it
            before the capture.""",
        )
        graph = torch.mps.MPSGraph()
        graph.register_generator_state(generator)
        self.assert_raises(
            TypeError,
            lambda: graph.register_generator_state(3),
            "torch.mps graph: register_generator_state() takes a generator of the MPS device, got 3.",
        )

    def test_optimizer(self):
        parameter = torch.nn.Parameter(self.x)
        parameter.grad = torch.ones_like(self.x)
        optimizer = torch.optim.Adam([parameter])
        optimizer.step()
        self.assert_refused(
            optimizer.step,
            """torch.mps graph capture: Adam.step() counts its steps on the host, and replays would repeat the same
            step. Construct the optimizer with capturable=True (or fused=True), or call step() outside of the
            capture.""",
        )

    def test_arguments(self):
        graph = torch.mps.MPSGraph()
        self.assert_raises(
            ValueError,
            lambda: graph.capture_begin(capture_error_mode="strict"),
            """capture_error_mode must be "global", "thread_local", "relaxed" or "default", got 'strict'""",
        )
        self.assert_raises(
            TypeError,
            lambda: torch.mps.graph(graph, stream="strict"),
            "stream must be None or a torch.Stream of the MPS device, but is 'strict'",
        )
        self.assert_fails(
            graph.capture_end,
            "torch.mps graph capture: capture_end() was called on a graph that is not being captured. Call capture_begin() first.",
        )
        self.assert_fails(
            graph.pool, "torch.mps graph: pool() was called before a capture."
        )

    def test_types(self):
        """Are checked where they enter, by name."""
        new_graph, graph = torch.mps.MPSGraph, torch.mps.MPSGraph()
        context = functools.partial(torch.mps.graph, graph)
        make = functools.partial(torch.mps.make_graphed_callables, torch.sin, (self.x,))
        self.assert_raises(
            TypeError,
            lambda: torch.mps.graph(self.x),
            "mps_graph must be a torch.mps.Graph, got Tensor",
        )
        for function, handle in (
            (context, graph),
            (graph.capture_begin, "a"),
            (torch.mps.graph_capture, (1, "a")),
            (make, "a"),
        ):
            self.assert_raises(
                TypeError,
                lambda: function(pool=handle),
                f"pool must come from graph_pool_handle() or MPSGraph.pool(), got {type(handle).__name__}",
            )
        for function, name, value, kind in (
            (context, "capture_error_mode", 1, "a str"),
            (graph.capture_begin, "freeze_host_reads", 1, "a bool"),
            (graph.capture_begin, "check_input_liveness", "", "a bool"),
            (context, "empty_cache", None, "a bool"),
            (new_graph, "keep_graph", 3, "a bool"),
            (make, "num_warmup_iters", "a", "an int"),
            (make, "allow_unused_input", 1, "a bool"),
        ):
            expected = f"{name} must be {kind}, got {type(value).__name__}"
            with self.subTest(expected):
                self.assert_raises(
                    TypeError, lambda: function(**{name: value}), expected
                )

    def test_copies(self):
        graph = captured(lambda: self.x + 1)
        for function in (pickle.dumps, copy.copy, copy.deepcopy):
            self.assert_raises(
                TypeError,
                lambda: function(graph),
                """a torch.mps.Graph can't be copied or pickled, since it holds memory of this process. Save the
                state_dict() of the model instead.""",
            )


class TestReplayMessages(MessageTestCase):
    def test_graph_without_init(self):
        self.assert_fails(
            torch.mps.Graph.__new__(torch.mps.Graph).replay,
            "torch.mps graph replay: __init__() of the graph was not called.",
        )

    def test_empty_graphs(self):
        graph = torch.mps.MPSGraph()
        self.assert_fails(
            graph.replay,
            "torch.mps graph replay: this graph is empty. Capture into it first.",
        )
        with torch.mps.graph(graph):
            self.assert_fails(
                graph.replay,
                "torch.mps graph replay: this graph is still being captured.",
            )
            self.assert_fails(
                graph.reset,
                "torch.mps graph: reset() was called while the graph is being captured.",
            )
        self.assert_warns(
            graph.replay,
            """torch.mps graph replay: nothing ran on the MPS device during the capture, so there is nothing to
            replay.""",
        )
        with unittest.mock.patch.object(torch.mps.graphs, "_current_graph", None):
            self.assert_fails(
                torch.mps.graph_replay,
                """torch.mps.graph_replay() was called without a captured graph; run a block under
                torch.mps.graph_capture() first""",
            )

    def test_failed_capture(self):
        """What the capture raised is named."""

        class Broken(Exception):
            def __str__(self):
                raise ValueError

        for error, words in (
            (KeyError("a"), "KeyError: 'a'"),
            (KeyboardInterrupt(), "KeyboardInterrupt."),
            (RuntimeError("one\ntwo"), "RuntimeError: one"),
            (Broken(), "Broken."),
        ):
            with self.assertRaises(type(error)), torch.mps.graph_capture():
                raise error
            self.assert_fails(
                torch.mps.graph_replay,
                f"torch.mps graph replay: this graph is empty. Capture into it first. Its last capture raised {words}",
            )
        graph = torch.mps.MPSGraph()
        host = torch.ones(2, 3)
        with self.assertRaises(RuntimeError) as raised, torch.mps.graph(graph):
            self.x + (host + 1).to("mps")
        self.assert_fails(
            graph.replay,
            "torch.mps graph replay: this graph is empty. Capture into it first. Its last capture raised RuntimeError: "
            + str(raised.exception),
        )
        with torch.mps.graph(graph):
            self.x + 1
        graph.reset()
        self.assert_fails(
            graph.replay,
            "torch.mps graph replay: this graph is empty. Capture into it first.",
        )

    def test_input_that_is_gone(self):
        x = torch.ones(2, 3, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            x + 1
        del x
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the Float tensor of shape [2, 3] with a storage of 24 bytes, first used by aten::add at
            FILE:LINE (test_input_that_is_gone), is gone: the program dropped it or replaced it by a new tensor, which a
            replay does not read. Write new values in place (copy_(), fill_(), ...), or capture again. If its values are to
            stay as they are, keep the tensor, or capture with check_input_liveness=False.""",
        )

    def test_generator_that_is_gone(self):
        generator = torch.Generator(device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            torch.rand(3, device="mps", generator=generator)
        del generator
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: a generator that the block drew from is gone: the program dropped it or replaced it
            by a new one, and a replay would draw from the old one. Keep it, or capture again.""",
        )

    def test_source_that_the_block_made(self):
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            host = torch.zeros(3)
            host.to("mps")
        host.add_(1)
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: a Float CPU tensor of shape [3] that the block made and copied to the device was
            written to after the capture, and eager mode would make it again. Make it before the capture, or capture
            again.""",
        )

    def test_replaced_gradient(self):
        layer = torch.nn.Linear(3, 2, bias=False, device="mps")
        layer(self.x).sum().backward()
        graph = captured(lambda: layer(self.x).sum().backward())
        layer.zero_grad()
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the .grad of the Float tensor of shape [2, 3] was set to None after the capture,
            and the graph would write to the old one, which nothing reads. Use zero_grad(set_to_none=False), call
            zero_grad() in the captured block, or capture again.""",
        )
        layer.zero_grad()
        graph = captured(lambda: (layer.zero_grad(), layer(self.x).sum().backward())[0])
        layer.zero_grad()
        layer(self.x).sum().backward()
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the .grad of the Float tensor of shape [2, 3] was replaced after the capture,
            and the graph would write to the old one, which nothing reads. Set it to None before each replay, or capture
            again.""",
        )
        layer.zero_grad()
        graph.replay()
        self.assertEqual(layer.weight.grad, self.x.sum(0).expand(2, 3))

    def test_changed_metadata(self):
        for change, words in (
            (
                lambda x: x.resize_(40),
                "has shape [40] and another storage of 160 bytes",
            ),
            (lambda x: x.t_(), "has shape [3, 2]"),
            (
                lambda x: x.as_strided_((2, 3), (1, 2)),
                "has strides [1, 2] instead of [3, 1]",
            ),
            (
                lambda x: x.set_(x.untyped_storage(), 6, (2, 3)),
                "begins at element 6 of its storage instead of 0",
            ),
            (lambda x: setattr(x, "data", x.data.view(torch.int32)), "has dtype Int"),
            (
                lambda x: setattr(x, "data", torch._neg_view(x.data)),
                "has another conjugate or negative bit",
            ),
        ):
            x = torch.ones(12, device="mps")
            x.set_(x.untyped_storage(), 0, (2, 3))
            graph = captured(lambda: x + 1)
            change(x)
            self.assert_fails(
                graph.replay,
                f"""torch.mps graph replay: the Float tensor of shape [2, 3] with a storage of 48 bytes, first used by
                aten::add at FILE:LINE (<lambda>), now {words}. A replay uses tensors as they were in the capture. Write
                new values in place (copy_(), fill_(), ...), or capture again.""",
            )

    def test_moved_host_storage(self):
        host = torch.ones(2, 3)
        graph = captured(lambda: self.x.copy_(host))
        host.resize_(40)
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the Float CPU tensor of shape [2, 3] with a storage of 24 bytes, first used by
            aten::copy_ at FILE:LINE (<lambda>), now has shape [40] and another storage of 160 bytes, and a replay would
            copy from the old memory. Write new values in place (copy_(), fill_(), ...), or capture again.""",
        )

    def test_resized_host_view(self):
        """The tensor that was copied is gone, and its storage was resized."""
        host = torch.ones(6)
        graph = captured(lambda: self.x[0].copy_(host.data[:3]))
        host.resize_(40)
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the storage of a Float CPU tensor of shape [3], which the graph copies to the
            device, had 24 bytes in the capture and has 160 now. Write new values in place (copy_(), fill_(), ...)
            instead of resizing it, or capture again.""",
        )

    def test_number_of_the_host(self):
        for dtype, old, new in (
            (torch.float32, "2", "3"),
            (torch.bool, "1", "0"),
            (torch.int8, "2", "3"),
        ):
            number = torch.tensor(2).to(dtype)
            graph = captured(lambda: self.x * number)
            number.fill_(int(new))
            self.assert_fails(
                graph.replay,
                f"""torch.mps graph replay: the {str(graph and number.type()).split(".")[1].replace("Tensor", "")} CPU
                tensor of shape [] with a storage of {number.itemsize} bytes, first used by aten::mul at FILE:LINE
                (<lambda>), holds {new} instead of {old}. The host read it in the capture, and a replay uses the old
                value. Move it to the device before the capture, or capture again.""",
            )
        lengths = torch.tensor([2, 3])
        graph = captured(lambda: self.x * lengths.max().item())
        lengths.fill_(1)
        with self.assertRaisesRegex(
            RuntimeError, r"shape \[2\] .* holds other values. The"
        ):
            graph.replay()

    def test_optimizer(self):
        weight = torch.nn.Parameter(self.x.clone())
        weight.grad = self.x.clone()
        optimizer = torch.optim.SGD([weight], lr=0.5)
        graph = captured(optimizer.step)
        optimizer.param_groups[0]["lr"] = 0.25
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: param_groups[0]['lr'] of SGD was 0.5 in the captured step and is 0.25 now, and a
            replay uses the old value. Capture again. For lr, Adam(capturable=True) and similar optimizers also take a
            tensor of the MPS device, which you can change in place.""",
        )
        optimizer.param_groups[0]["lr"] = 0.5
        optimizer.add_param_group({"params": [torch.nn.Parameter(self.x.clone())]})
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: SGD got other parameters after the capture, and a replay would not update them.
            Capture again.""",
        )
        optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.5)
        self.assert_fails(
            lambda: captured(optimizer.step),
            """torch.mps graph capture: SGD.step() made its state 'momentum_buffer' in the capture, and each replay would
            make it again. Call step() once before the capture.""",
        )
        graph = captured(optimizer.step)
        optimizer.load_state_dict(optimizer.state_dict())
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the state of SGD was replaced or cleared after the capture, as load_state_dict()
            does, and a replay would update the old one. Capture again.""",
        )
        graph = captured(optimizer.step)
        weight.grad = self.x.clone()
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: SGD.step() was captured without the backward pass of the parameter of shape [2, 3],
            and its .grad is not that of the capture, as after zero_grad() and backward(). Call
            zero_grad(set_to_none=False), or capture the backward pass, too.""",
        )
        graph = captured(optimizer.step)
        optimizer = None
        self.assert_fails(
            graph.replay,
            """torch.mps graph replay: the optimizer of a captured step is gone: the program dropped it or replaced it by a
            new one, and a replay would do the step of the old one. Capture again. If that is meant, keep the old one with
            Graph.retain_object().""",
        )

    def test_status(self):
        square = torch.eye(3, device="mps")
        graph = captured(lambda: torch.linalg.lu_factor(square))
        square.zero_()
        graph.replay()
        self.assert_fails(
            torch.mps.synchronize,
            "torch.mps graph replay: lu_factor(): LU factorization failure (status -2)",
        )

    def test_debug_dump(self):
        graph = captured(lambda: self.x + 1)
        with tempfile.TemporaryDirectory() as folder:
            self.assert_fails(
                lambda: graph.debug_dump(os.path.join(folder, "graph.json")),
                "call enable_debug_mode() before debug_dump(), or make the graph with keep_graph=True",
            )

    def test_instantiate(self):
        graph = torch.mps.MPSGraph()
        self.assert_fails(
            graph.instantiate,
            "torch.mps graph: instantiate() was called on an empty graph. Capture into it first.",
        )
        with torch.mps.graph(graph):
            self.x + 1
            self.assert_fails(
                graph.instantiate,
                "torch.mps graph: instantiate() was called while the graph is being captured.",
            )
        self.assert_fails(
            graph.instantiate,
            """torch.mps graph: instantiate() needs a graph that keeps its recording. Make it with
            torch.mps.Graph(keep_graph=True).""",
        )


class TestExecutableCacheMessages(MessageTestCase):
    def test_arguments(self):
        for kind, name, value, expected in (
            (
                ValueError,
                "limit",
                -1,
                "the limit of the executable cache must be 0 or more, but is -1",
            ),
            (TypeError, "limit", "a", "n must be an int, got str"),
            (TypeError, "enabled", "a", "enabled must be a bool, got str"),
        ):
            set_it = getattr(torch.mps, f"set_executable_cache_{name}")
            self.assert_raises(kind, lambda: set_it(value), expected)


class TestGraphedCallableMessages(MessageTestCase):
    def assert_not_made(self, kind, function, args, expected, **options):
        self.assert_raises(
            kind,
            lambda: torch.mps.make_graphed_callables(function, args, **options),
            expected,
        )

    def test_arguments(self):
        x = self.x
        for function, args, expected in (
            (torch.sin, x, "sample_args must be a tuple, got Tensor"),
            (
                (torch.sin,),
                (x,),
                "sample_args of each callable must be a tuple, got Tensor",
            ),
            (
                3,
                (x,),
                "callables must be a function, a module or a tuple of them, got int",
            ),
            (
                torch.sin,
                (3,),
                "make_graphed_callables: sample_args must contain MPS tensors only, got a int",
            ),
            (
                torch.sin,
                (torch.ones(2),),
                """make_graphed_callables: sample_args must contain MPS tensors only, got a
                torch.float32 tensor of shape [2] on cpu""",
            ),
            (
                lambda x: object(),
                (x,),
                "make_graphed_callables: a callable must return None, numbers, strings and MPS tensors only, got a object",
            ),
        ):
            self.assert_not_made(TypeError, function, args, expected)
        self.assert_not_made(
            ValueError,
            (torch.sin, torch.sin),
            ((x,),),
            "make_graphed_callables: there are 2 callables, but sample_args for 1",
        )
        self.assert_not_made(
            RuntimeError,
            lambda x, y: x * 2,
            tuple(torch.ones(n, device="mps", requires_grad=True) for n in (3, 4)),
            """make_graphed_callables: a torch.float32 tensor of shape [4] on mps, an argument or a parameter that
            requires gradients, has no part in the outputs. Pass allow_unused_input=True if that is meant.""",
        )

    def test_modules(self):
        def layer(**options):
            return torch.nn.Linear(3, 2, **{"device": "mps", **options})

        hooked, hooked_bias, with_buffer = layer(), layer(), layer()
        hooked.register_forward_hook(lambda *args: None)
        hooked_bias.bias.register_hook(lambda grad: None)
        scale = torch.ones(2, device="mps", requires_grad=True)
        with_buffer.register_buffer("scale", scale)
        with torch.inference_mode():
            without_autograd = layer()
        for module, expected in (
            (
                hooked,
                "make_graphed_callables: the Linear has hooks, which replays would not run. Remove them, or run the "
                "module eagerly.",
            ),
            (
                hooked_bias,
                "make_graphed_callables: the parameter 'bias' has hooks, which the capture would run. Add hooks after "
                "make_graphed_callables() returns.",
            ),
            (
                with_buffer,
                "make_graphed_callables: the buffer 'scale' requires gradients. Make it a parameter.",
            ),
            (
                layer(device="cpu"),
                "make_graphed_callables: the parameter 'weight' is on cpu, not on the MPS device",
            ),
            (
                without_autograd,
                """make_graphed_callables: 'weight' of the module was created under torch.inference_mode(), so autograd
                can't use it. Create the module outside of that mode.""",
            ),
        ):
            self.assert_not_made(RuntimeError, module, (self.x,), expected)

    def test_memory_that_is_not_copied(self):
        x = self.x
        weight = torch.ones(3, device="mps", requires_grad=True)
        self.assert_not_made(
            RuntimeError,
            lambda x: x.add_(weight),
            (x,),
            """make_graphed_callables: the callable writes a value that requires gradients to its argument, a
            torch.float32 tensor of shape [2, 3] on mps. A replay can't give the caller's tensor a backward pass for that
            value. Return the value instead.""",
        )
        self.assert_not_made(
            RuntimeError,
            lambda x: x.view(-1),
            (x,),
            """make_graphed_callables: the callable returns a torch.float32 tensor of shape [6] on mps, which is a view
            of an argument or of another tensor from before the capture, but replays return copies. Return its
            clone().""",
        )
        wrapped = TwoTensor(x, x)
        self.assert_not_made(
            TypeError,
            torch.sin,
            (wrapped,),
            """make_graphed_callables: a torch.float32 TwoTensor of shape [2, 3] on mps is of a subclass with
            __torch_dispatch__, TwoTensor, which has no memory of its own that a replay could read. Pass the tensors
            that it holds.""",
        )

    def test_tensor_that_is_left_behind(self):
        kept = []

        def double(x):
            kept.append(x + 1)
            return x * 2

        double.__qualname__ = "double"
        self.assert_fails(
            lambda: torch.mps.make_graphed_callables(double, (self.x,)),
            """make_graphed_callables: double keeps the Float tensor of shape [2, 3] with a storage of 24 bytes, first
            used by aten::add at FILE:LINE (double), which is none of its results: replays would overwrite it, or leave
            it as it is. Return it as a result.""",
        )

    def test_use_elsewhere(self):
        module = torch.mps.make_graphed_callables(
            torch.nn.Linear(3, 2, device="mps"), (self.x,)
        )
        self.assert_raises(
            TypeError,
            lambda: pickle.dumps(module),
            """make_graphed_callables: the graphed Linear can't be pickled, since its graphs belong to this process.
            Save the state_dict() of the model instead.""",
        )
        relu = torch.mps.make_graphed_callables(F.relu, (self.x,))
        self.assertIs(copy.deepcopy([relu])[0], relu)
        self.assertIs(copy.copy(relu), relu)
        self.assert_raises(
            TypeError,
            lambda: pickle.dumps(relu),
            """make_graphed_callables: the graphed relu can't be pickled, since its graphs belong to this process.
            Save the state_dict() of the model instead.""",
        )
        loss = module(self.x).sum()

        def capture():
            with torch.mps.graph(torch.mps.MPSGraph()):
                loss.backward()

        self.assert_fails(
            capture,
            """make_graphed_callables: the backward pass of a call before the capture can't be captured, since later
            calls overwrite its activations. Call the graphed callable in the capture, too.""",
        )

    def test_calls(self):
        x = self.x
        double = torch.mps.make_graphed_callables(lambda x: x * 2, (x,))
        with self.assertWarnsRegex(
            UserWarning,
            "make_graphed_callables: .*<lambda> runs eagerly: the number, nesting, shapes or dtypes of its arguments "
            "differ from those of sample_args. Call make_graphed_callables again to get replays.",
        ):
            double(x.half())
        self.assert_fails(
            lambda: double(x.clone().requires_grad_()),
            """make_graphed_callables: a torch.float32 tensor of shape [2, 3] on mps requires gradients, and its sample
            did not, so there is no backward pass for it. Pass a sample with requires_grad=True.""",
        )

    def test_backward(self):
        x = self.x.clone().requires_grad_()
        square = torch.mps.make_graphed_callables(lambda x: F.relu(x) ** 2, (x,))
        first = square(x)
        square(x)
        self.assert_fails(
            lambda: first.sum().backward(),
            """make_graphed_callables: the activations of this call were overwritten before its backward pass. Either the
            callable was called again, or an earlier graph of the same pool was replayed. Run the backward pass first, or
            give each callable a separate pool.""",
        )
        self.assert_fails(
            lambda: torch.autograd.grad(square(x).sum(), x, create_graph=True),
            """make_graphed_callables: the backward pass of a graphed callable can't be differentiated
            (create_graph=True).""",
        )

    def test_written_static_input(self):
        sample = torch.ones(4, device="mps", requires_grad=True)
        sine = torch.mps.make_graphed_callables(lambda x: x.sin(), (sample,))
        (x,) = sine.static_inputs
        result = sine(x)
        with torch.no_grad():
            x.fill_(2)
        self.assert_fails(
            lambda: result.sum().backward(),
            """make_graphed_callables: a torch.float32 tensor of shape [4] on mps, which the backward pass needs, was
            written to between the forward and the backward pass: it is at version 1, expected version 0. Run the
            backward pass first.""",
        )


if __name__ == "__main__":
    run_tests()
