# Owner(s): ["module: mps", "module: inductor"]

"""Cases for the C API by which models of AOTInductor run Metal kernels."""

import functools
import math
import os
import shutil
import tempfile
import unittest
from contextlib import contextmanager

from test_mps_graph import captured, EXACT, GraphTestCase

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)
from torch.utils import cpp_extension


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

SOURCE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)),
    "cpp_extensions",
    "mps_aoti_shim_extension.cpp",
)

KERNELS = """
kernel void scale(device float* out, constant float* in, constant long& factor,
                  uint i [[thread_position_in_grid]]) {
  out[i] = in[i] * factor;
}

kernel void add(device float* out, constant float& number, uint i [[thread_position_in_grid]]) {
  out[i] += number;
}

// The shape of the threadgroup, at the place of each thread of the grid.
kernel void groups(device int* out,
                   uint3 place [[thread_position_in_grid]],
                   uint3 grid [[threads_per_grid]],
                   uint3 group [[threads_per_threadgroup]]) {
  out[(place.z * grid.y + place.y) * grid.x + place.x] += group.x * 10000 + group.y * 100 + group.z;
}
"""
DOES_NOT_COMPILE = "kernel void broken(device float* out) { out[0] = no_such_name; }"


class ShimTestCase(GraphTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.shim = cpp_extension.load(
            name="mps_aoti_shim_extension", sources=[SOURCE], build_directory=folder
        )

    def setUp(self):
        super().setUp()
        code, self.library = self.shim.create_library(KERNELS)
        self.assertEqual(code, 0)
        self.addCleanup(self.delete_library)

    def delete_library(self):
        library, self.library = self.library, 0
        self.assertEqual(self.shim.delete_library(library), 0)

    def kernel(self, name):
        code, handle = self.shim.get_kernel(self.library, name)
        self.assertEqual(code, 0)
        self.assertNotEqual(handle, 0)
        return handle

    def encode(self, *calls):
        """Makes calls, of which each is the name of a function and its arguments, and returns their codes."""
        return [getattr(self.shim, name)(*arguments) for name, *arguments in calls]

    def run_calls(self, *calls):
        """Makes calls in one command block; all must succeed."""
        codes = []
        kernel = calls[0][1]
        code = self.shim.run(kernel, lambda: codes.extend(self.encode(*calls)))
        self.assertEqual([*codes, code], [0] * (len(calls) + 1))

    def run_kernel(self, name, *arguments, dispatch):
        """Runs a kernel in a command block of its own; the last argument names a function, and what it takes."""
        kernel = self.kernel(name)
        self.run_calls(*self.calls_of(kernel, *arguments, dispatch=dispatch))

    def calls_of(self, kernel, *arguments, dispatch):
        return [
            ("start", kernel),
            *(
                ("set_int" if isinstance(a, int) else "set_tensor", kernel, i, a)
                for i, a in enumerate(arguments)
            ),
            (dispatch[0], kernel, *dispatch[1:]),
        ]

    def scale(self, out, x, factor):
        self.run_kernel("scale", out, x, factor, dispatch=("dispatch", out.numel()))

    @contextmanager
    def assert_logged(self, *expected):
        """The block writes these to the log of errors."""
        with tempfile.TemporaryFile() as file:
            saved = os.dup(2)
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            file.seek(0)
            # without the traces of C++
            log = "\n".join(
                line
                for line in file.read().decode().splitlines()
                if not line.startswith("frame #")
            )
        for text in expected:
            self.assertIn(" ".join(text.split()), " ".join(log.split()))


class TestModel(ShimTestCase):
    """Code of the shape that AOTInductor generates."""

    def test_views(self):
        """A tensor begins where its storage offset says."""
        x = torch.randn(40)
        on_device = x.to("mps")
        result = self.shim.run_model(on_device[3:13], on_device[21:31], -2)
        self.assertEqual(result.cpu(), x[3:13] * -2 + x[21:31], **EXACT)

    def test_captured(self):
        x, y = torch.randn(64, device="mps"), torch.randn(64, device="mps")

        def block():
            z = self.shim.run_model(torch.relu(x), y, 3)
            return self.shim.run_model(z, x, 2).exp()

        graph, out = captured(block)
        self.assertEqual(out, (2 * (3 * torch.relu(x) + y) + x).exp())
        for _ in range(3):
            x.normal_()
            y.normal_()
            graph.replay()
            self.assertEqual(out, block())

    def test_moved_storage(self):
        """The API gets its tensors without an operator."""
        x, y = torch.randn(8, device="mps"), torch.randn(8, device="mps")
        graph, out = captured(lambda: self.shim.run_model(x, y, 3))
        x.fill_(2)
        graph.replay()
        self.assertEqual(out.cpu(), 6 + y.cpu())
        x.data = torch.ones(8, device="mps")
        with self.assertRaisesRegex(
            RuntimeError,
            "Float tensor of shape \\[8\\].*now has shape .* and another storage",
        ):
            graph.replay()

    def test_failure_in_a_capture(self):
        x, y = torch.randn(8, device="mps"), torch.randn(8, device="mps")
        level = self.stable_memory_level()
        graph = torch.mps.MPSGraph()
        with self.assert_logged(
            "the tensor for argument 2 is on cpu, not on the MPS device"
        ):
            with self.assertRaisesRegex(
                RuntimeError, "the model failed"
            ), torch.mps.graph(graph):
                z = x + y
                self.shim.run_model(z, torch.ones(8), 3)
        del z
        self.assert_level(level)
        with torch.mps.graph(graph):
            out = self.shim.run_model(x, y, 3)
        x.fill_(5)
        graph.replay()
        self.assertEqual(out.cpu(), 15 + y.cpu())

    def test_threads(self):
        """Kernel and encoder are shared by all threads, command blocks by none."""
        inputs = [torch.randn(100) for _ in range(4)]
        results = [[] for _ in inputs]

        def work(i):
            x = inputs[i].to("mps")
            for factor in range(20):
                results[i].append(self.shim.run_model(x, x, factor))

        self.run_together(*(functools.partial(work, i) for i in range(len(inputs))))
        for x, found in zip(inputs, results):
            self.assertEqual(
                [r.cpu() for r in found], [x * factor + x for factor in range(20)]
            )


class TestCalls(ShimTestCase):
    """What each function does when all is well."""

    def test_libraries(self):
        self.assertEqual(self.kernel("scale"), self.kernel("scale"))
        self.assertNotEqual(self.kernel("scale"), self.kernel("add"))
        code, other = self.shim.create_library(KERNELS)
        self.assertEqual(code, 0)
        self.assertNotEqual(
            self.shim.get_kernel(other, "scale")[1], self.kernel("scale")
        )
        self.assertEqual(self.shim.delete_library(other), 0)
        self.assertEqual(self.shim.delete_library(0), 0)

    def test_library_may_go(self):
        """Submitted work runs and graphs replay without it."""
        x, out = torch.arange(6.0, device="mps"), torch.empty(6, device="mps")
        graph, _ = captured(lambda: self.scale(out, x, 10))
        eager = torch.empty(6, device="mps")
        self.scale(eager, x, 7)
        self.delete_library()
        self.assertEqual(eager.cpu(), torch.arange(6.0) * 7)
        x.add_(1)
        graph.replay()
        self.assertEqual(out.cpu(), (torch.arange(6.0) + 1) * 10)

    def test_integers(self):
        x, out = torch.ones(3, device="mps"), torch.empty(3, device="mps")
        for factor in (-1, 2**40, -(2**62)):
            self.scale(out, x, factor)
            self.assertEqual(out.cpu(), torch.full((3,), float(factor)))

    def test_numbers(self):
        """A CPU tensor without dimensions is a number, copied at the call."""
        numbers = torch.tensor([1.0, 2.0, 4.0])
        out = torch.zeros(3, device="mps")
        add = lambda: self.run_kernel(  # noqa: E731
            "add", out, numbers[2], dispatch=("dispatch", 3)
        )
        graph, _ = captured(add)
        self.assertEqual(out.cpu(), torch.full((3,), 4.0))
        numbers.fill_(100)
        self.check_filled(graph, out, 0.5, out, 4.5)

    def test_several_kernels_in_one_block(self):
        """The last that was started is the one that runs; each keeps its own pipeline, none its arguments."""
        scale, add = self.kernel("scale"), self.kernel("add")
        x, out = torch.randn(5, device="mps"), torch.empty(5, device="mps")
        number = torch.tensor(3.0)
        calls = [
            *self.calls_of(scale, out, x, 2, dispatch=("dispatch", 5)),
            *self.calls_of(add, out, number, dispatch=("dispatch", 5)),
            ("dispatch", add, 4),
        ]
        graph, _ = captured(lambda: self.run_calls(*calls))
        self.assertEqual(graph.stats()["kernels"], 3)
        more = torch.tensor([6.0] * 4 + [3.0])
        self.assertEqual(out.cpu(), x.cpu() * 2 + more)
        x.normal_()
        graph.replay()
        self.assertEqual(out.cpu(), x.cpu() * 2 + more)

    @parametrize(
        "lengths,group,expected",
        [
            ([6], [4], 40101),
            ([5, 3], [2, 3], 20301),
            ([4, 3, 2], [4, 1, 2], 40102),
        ],
    )
    def test_threadgroups(self, lengths, group, expected):
        dispatches = [("dispatch_groups", lengths, group)]
        if len(lengths) == 1:
            dispatches.append(("dispatch_group", *lengths, *group))
        for dispatch in dispatches:
            out = self.check_grid(lengths, dispatch)
            # the last threadgroup of a row that doesn't fit is smaller, so the first says what was asked for
            self.assertEqual(out[0].item(), expected)

    def check_grid(self, lengths, dispatch):
        """Each thread of the grid writes its number, in the capture and in a replay, and nothing else is written."""
        count = math.prod(lengths)
        out = torch.zeros(count + 1, device="mps", dtype=torch.int32)
        graph, _ = captured(lambda: self.run_kernel("groups", out, dispatch=dispatch))
        first = out.clone()
        self.assertEqual((out != 0).tolist(), [True] * count + [False])
        out.fill_(-5)
        graph.replay()
        self.assertEqual(out, first - 5)
        return first

    @parametrize("lengths", [[7], [5, 3], [4, 3, 2]])
    def test_grids(self, lengths):
        self.check_grid(lengths, ("dispatch_array", lengths))

    def test_nothing_to_run(self):
        """A model with an empty input dispatches over no threads."""
        out = torch.zeros(4, device="mps", dtype=torch.int32)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            out.add_(1)
            for dispatch in (
                ("dispatch", 0),
                ("dispatch_group", 0, 4),
                ("dispatch_array", [2, 0]),
                ("dispatch_groups", [0, 2], [1, 1]),
            ):
                self.run_kernel("groups", out, dispatch=dispatch)
        self.assertEqual(out.cpu(), torch.ones(4, dtype=torch.int32))
        out.fill_(7)
        graph.replay()
        self.assertEqual(out.cpu(), torch.full((4,), 8, dtype=torch.int32))
        empty = torch.empty(0, device="mps")
        self.assertEqual(self.shim.run_model(empty, empty, 3).numel(), 0)


class TestErrors(ShimTestCase):
    """Each error gives a code and says why in the log; nothing is thrown, and what follows works."""

    def setUp(self):
        super().setUp()
        self.scaling = self.kernel("scale")
        self.x = torch.arange(4.0, device="mps")

    def tearDown(self):
        # whatever went wrong
        out = torch.empty(4, device="mps")
        self.scale(out, self.x, 2)
        self.assertEqual(out.cpu(), torch.arange(4.0) * 2)
        super().tearDown()

    def assert_fails(self, call, *expected):
        """A function of that name, called with the other words, gives an error."""
        with self.assert_logged(*expected):
            (code,) = self.encode(call)
        self.assertEqual(code[0] if isinstance(code, tuple) else code, 1)

    def assert_fails_in_block(self, call, *expected, start=True):
        """The call returns the error, and so does the block as a whole."""
        codes = []
        before = [("start", self.scaling), ("set_tensor", self.scaling, 1, self.x)]
        calls = [*before, call] if start else [call]
        with self.assert_logged(
            *expected, "AOTInductor on MPS: a call of the command block failed"
        ):
            code = self.shim.run(
                self.scaling, lambda: codes.extend(self.encode(*calls))
            )
        self.assertEqual([*codes, code], [0, 0, 1, 1] if start else [1, 1])

    def test_handles(self):
        for call, expected in (
            (
                ("create_library", None),
                "AOTInductor on MPS: the source of the library is null",
            ),
            (
                ("create_library_nowhere",),
                "AOTInductor on MPS: library_handle is null",
            ),
            (("create_library", DOES_NOT_COMPILE), "no_such_name"),
            (
                ("get_kernel", 0, "scale"),
                "AOTInductor on MPS: the handle of the library is null",
            ),
            (
                ("get_kernel", self.library, None),
                "AOTInductor on MPS: the name of the kernel is null",
            ),
            (
                ("get_kernel_nowhere", self.library),
                "AOTInductor on MPS: function_handle is null",
            ),
            (("get_kernel", self.library, "unknown"), "unknown"),
        ):
            self.assert_fails(call, expected)
        for failed in (
            self.shim.create_library(None),
            self.shim.create_library(DOES_NOT_COMPILE),
            self.shim.get_kernel(self.library, "unknown"),
        ):
            self.assertEqual(failed, (1, 0))

    def test_null_kernel(self):
        message = "AOTInductor on MPS: the handle of the kernel is null"
        self.assert_fails(("run", 0, lambda: None), message)
        for name, *arguments in (
            ("start",),
            ("set_tensor", 0, self.x),
            ("set_int", 0, 1),
            ("dispatch", 4),
            ("dispatch_group", 4, 4),
            ("dispatch_array", [4]),
            ("dispatch_groups", [4], [4]),
        ):
            self.assert_fails_in_block((name, 0, *arguments), message)

    def test_callback(self):
        def raises():
            raise KeyError("from the callback")

        for name, *arguments, expected in (
            (
                "run_without_callback",
                "AOTInductor on MPS: the callback of the command block is null",
            ),
            (
                "run_without_function",
                "AOTInductor on MPS: the function of the command block is null",
            ),
            ("run_empty_function", "bad_function_call"),
            ("run_throwing", "UNKNOWN"),
            ("run", raises, "from the callback"),
        ):
            self.assert_fails((name, self.scaling, *arguments), expected)
        with self.assert_logged("the function of the command block is null"):
            self.shim.call_without_function(self.scaling)

    def test_throwing_halfway(self):
        """What was dispatched before the callback threw is submitted, and recorded."""
        out = torch.zeros(4, device="mps")

        calls = self.calls_of(self.scaling, out, self.x, 5, dispatch=("dispatch", 4))

        def block():
            self.encode(*calls)
            raise KeyError("halfway")

        call = ("run", self.scaling, block)
        graph, _ = captured(lambda: self.assert_fails(call, "halfway"))
        self.assertEqual(out.cpu(), torch.arange(4.0) * 5)
        out.zero_()
        graph.replay()
        self.assertEqual(out.cpu(), torch.arange(4.0) * 5)

    def test_nested_blocks(self):
        codes = []
        with self.assert_logged(
            "AOTInductor on MPS: a command block was run from a block of the stream's queue, where it would wait "
            "forever. Run it from another thread"
        ):
            code = self.shim.run(
                self.scaling,
                lambda: codes.append(
                    self.shim.run(self.scaling, lambda: codes.append("ran"))
                ),
            )
        self.assertEqual(codes, [1])
        self.assertEqual(code, 1)

    def test_outside_of_a_block(self):
        for name, *arguments in (
            ("start",),
            ("set_tensor", 0, self.x),
            ("set_int", 0, 1),
            ("dispatch", 4),
        ):
            self.assert_fails(
                (name, self.scaling, *arguments),
                """AOTInductor on MPS: work is encoded in the callback of aoti_torch_mps_run_command_block() only""",
            )

    def test_before_the_start(self):
        message = """AOTInductor on MPS: call aoti_torch_mps_start_encoding() for this kernel before its arguments are
            set and it is dispatched"""
        adding = self.kernel("add")
        for call in (
            ("set_tensor", adding, 0, self.x),
            ("set_int", adding, 0, 1),
            ("dispatch", adding, 4),
            ("dispatch_array", adding, [4]),
        ):
            self.assert_fails_in_block(call, message)
            # an encoder of an earlier block is of no use
            self.assert_fails_in_block(call, message, start=False)

    def test_arguments(self):
        number = torch.tensor(1.0, dtype=torch.float64)
        several = "AOTInductor on MPS: a grid has 1 to 3 dimensions, but this one has "
        null = "AOTInductor on MPS: the array of sizes is null"
        index = (
            "AOTInductor on MPS: the index of an argument must be below 31, but is {}"
        )
        for name, *arguments, expected in (
            (
                *("set_tensor", 0, None),
                "AOTInductor on MPS: the handle of the tensor for argument 0 is null",
            ),
            (
                *("set_tensor", 0, torch.ones(4)),
                "AOTInductor on MPS: the tensor for argument 0 is on cpu, not on the MPS device",
            ),
            (
                *("set_tensor", 0, torch.ones(4, device="meta")),
                "AOTInductor on MPS: the tensor for argument 0 is on meta",
            ),
            (
                *("set_tensor", 0, number),
                "AOTInductor on MPS: the number for argument 0 is of type Double, which Metal does not have",
            ),
            (
                *("set_undefined", 0),
                "AOTInductor on MPS: the tensor for argument 0 is undefined",
            ),
            ("set_tensor", 31, self.x, index.format(31)),
            ("set_tensor", 2**32 - 1, self.x, index.format(2**32 - 1)),
            ("set_int", 31, 1, index.format(31)),
            ("set_int", 2**32 - 1, 1, index.format(2**32 - 1)),
            ("dispatch_array", [], several + "0"),
            ("dispatch_array", [1, 1, 1, 1], several + "4"),
            ("dispatch_array", None, null),
            ("dispatch_groups", None, [1], null),
            ("dispatch_groups", [1], None, null),
            (
                *("dispatch_groups", [2, 2], [2]),
                "AOTInductor on MPS: the grid and its threadgroups have different numbers of dimensions: 2 and 1",
            ),
        ):
            self.assert_fails_in_block((name, self.scaling, *arguments), expected)

    def test_last_argument(self):
        """The kernel doesn't look at it."""
        out = torch.empty(4, device="mps")
        calls = self.calls_of(self.scaling, out, self.x, 3, dispatch=("dispatch", 4))
        calls.insert(1, ("set_int", self.scaling, 30, 1))
        self.run_calls(*calls)
        self.assertEqual(out.cpu(), torch.arange(4.0) * 3)

    def test_threadgroups(self):
        for name, *sizes in (
            ("dispatch_group", 4, 0),
            ("dispatch_group", 4, 2**20),
            ("dispatch_groups", [4, 4], [2**10, 2]),
            ("dispatch_groups", [4, 4, 4], [2**32, 2**32, 1]),
            ("dispatch_groups", [4, 4], [1, 0]),
        ):
            self.assert_fails_in_block(
                (name, self.scaling, *sizes),
                "AOTInductor on MPS: a threadgroup of this kernel has 1 to",
                "threads, but is of shape",
            )

    def test_nothing_runs_after_an_error(self):
        """Models do not look at the codes of the calls: a kernel must not run with arguments left from another."""
        x, wrong = torch.ones(4, device="mps"), torch.zeros(4, device="mps")
        out = torch.zeros(4, device="mps")
        codes = []

        calls = [
            ("start", self.scaling),
            ("set_tensor", self.scaling, 0, wrong),
            ("set_tensor", self.scaling, 1, x),
            ("set_int", self.scaling, 2, 5),
            ("set_tensor", self.scaling, 0, torch.ones(4)),
            ("dispatch", self.scaling, 4),
            ("start", self.scaling),
        ]
        block = lambda: codes.extend(self.encode(*calls))  # noqa: E731
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            out.add_(1)
            self.assert_fails(
                ("run", self.scaling, block),
                "AOTInductor on MPS: an earlier call of this command block failed",
            )
        self.assertEqual(codes, [0] * 4 + [1] * 3)
        self.assertEqual(wrong.cpu(), torch.zeros(4))
        x.fill_(3)
        graph.replay()
        self.assertEqual(wrong.cpu(), torch.zeros(4))
        self.assertEqual(out.cpu(), torch.full((4,), 2.0))


instantiate_parametrized_tests(TestCalls)


if __name__ == "__main__":
    run_tests()
