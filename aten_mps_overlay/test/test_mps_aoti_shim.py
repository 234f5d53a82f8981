# Owner(s): ["module: mps", "module: inductor"]

"""Cases for the C API by which models of AOTInductor run Metal kernels. The number in a docstring is the promise of
torch.mps graphs that the case guards: 3 what is recorded, 9 exceptions, 11 frozen values, 13 moved storage.
"""

import gc
import os
import shutil
import tempfile
import threading
import time
import unittest
from contextlib import contextmanager

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
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


class ShimTestCase(TestCase):
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
        torch.manual_seed(0)
        code, self.library = self.shim.create_library(KERNELS)
        self.assertEqual(code, 0)
        self.addCleanup(self.delete_library)

    def tearDown(self):
        self.assertFalse(torch.mps.is_current_stream_capturing())
        super().tearDown()

    def delete_library(self):
        library, self.library = self.library, 0
        self.assertEqual(self.shim.delete_library(library), 0)

    def kernel(self, name):
        code, handle = self.shim.get_kernel(self.library, name)
        self.assertEqual(code, 0)
        self.assertNotEqual(handle, 0)
        return handle

    def run_kernel(self, name, *arguments, dispatch):
        """One command block in which every call must succeed; dispatch(kernel) ends it."""
        kernel = self.kernel(name)
        codes = []

        def block():
            codes.append(self.shim.start(kernel))
            for i, argument in enumerate(arguments):
                set_argument = (
                    self.shim.set_int
                    if isinstance(argument, int)
                    else self.shim.set_tensor
                )
                codes.append(set_argument(kernel, i, argument))
            codes.append(dispatch(kernel))

        codes.append(self.shim.run(kernel, block))
        self.assertEqual(codes, [0] * (len(arguments) + 3))

    def scale(self, out, x, factor):
        self.run_kernel(
            "scale",
            out,
            x,
            factor,
            dispatch=lambda kernel: self.shim.dispatch(kernel, out.numel()),
        )

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

    def settled_level(self):
        """Bytes allocated once completion handlers, which may follow the wait for the GPU, have freed theirs."""
        levels = []
        while len(levels) < 3 or len(set(levels[-3:])) > 1:
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


class TestModel(ShimTestCase):
    """Code of the shape that AOTInductor generates."""

    def test_equals_cpu(self):
        x, y = torch.randn(5, 7), torch.randn(5, 7)
        self.assertEqual(
            self.shim.run_model(x.to("mps"), y.to("mps"), 3).cpu(),
            x * 3 + y,
            atol=0,
            rtol=0,
        )

    def test_views(self):
        """A tensor begins where its storage offset says."""
        x = torch.randn(40)
        on_device = x.to("mps")
        result = self.shim.run_model(on_device[3:13], on_device[21:31], -2)
        self.assertEqual(result.cpu(), x[3:13] * -2 + x[21:31], atol=0, rtol=0)

    def test_captured(self):
        """3"""
        x, y = torch.randn(64, device="mps"), torch.randn(64, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            z = self.shim.run_model(torch.relu(x), y, 3)
            out = self.shim.run_model(z, x, 2).exp()
        self.assertEqual(out, (2 * (3 * torch.relu(x) + y) + x).exp())
        for _ in range(3):
            x.normal_()
            y.normal_()
            graph.replay()
            self.assertEqual(
                out,
                self.shim.run_model(
                    self.shim.run_model(torch.relu(x), y, 3), x, 2
                ).exp(),
            )

    def test_moved_storage(self):
        """13: the API gets its tensors without an operator."""
        x, y = torch.randn(8, device="mps"), torch.randn(8, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            out = self.shim.run_model(x, y, 3)
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
        """9: the model raises, and the capture is dropped."""
        x, y = torch.randn(8, device="mps"), torch.randn(8, device="mps")
        level = self.settled_level()
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

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
        """3: submitted work runs and graphs replay without it."""
        x, out = torch.arange(6.0, device="mps"), torch.empty(6, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            self.scale(out, x, 10)
        eager = torch.empty(6, device="mps")
        self.scale(eager, x, 7)
        self.delete_library()
        self.assertEqual(eager.cpu(), torch.arange(6.0) * 7)
        x.add_(1)
        graph.replay()
        self.assertEqual(out.cpu(), (torch.arange(6.0) + 1) * 10)

    def test_integers(self):
        """64 bits."""
        x, out = torch.ones(3, device="mps"), torch.empty(3, device="mps")
        for factor in (-1, 2**40, -(2**62)):
            self.scale(out, x, factor)
            self.assertEqual(out.cpu(), torch.full((3,), float(factor)))

    def test_numbers(self):
        """11: a CPU tensor without dimensions is a number, copied at the call."""
        numbers = torch.tensor([1.0, 2.0, 4.0])
        out = torch.zeros(3, device="mps")
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            self.run_kernel(
                "add",
                out,
                numbers[2],
                dispatch=lambda kernel: self.shim.dispatch(kernel, 3),
            )
        self.assertEqual(out.cpu(), torch.full((3,), 4.0))
        numbers.fill_(100)
        out.fill_(0.5)
        graph.replay()
        self.assertEqual(out.cpu(), torch.full((3,), 4.5))

    def test_several_kernels_in_one_block(self):
        """The last that was started is the one that runs; each keeps its own pipeline, none its arguments."""
        scale, add = self.kernel("scale"), self.kernel("add")
        x, out = torch.randn(5, device="mps"), torch.empty(5, device="mps")
        number = torch.tensor(3.0)
        codes = []

        def block():
            codes.extend(
                [
                    self.shim.start(scale),
                    self.shim.set_tensor(scale, 0, out),
                    self.shim.set_tensor(scale, 1, x),
                    self.shim.set_int(scale, 2, 2),
                    self.shim.dispatch(scale, 5),
                    self.shim.start(add),
                    self.shim.set_tensor(add, 0, out),
                    self.shim.set_tensor(add, 1, number),
                    self.shim.dispatch(add, 5),
                    self.shim.dispatch(add, 4),
                ]
            )

        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            codes.append(self.shim.run(scale, block))
        self.assertEqual(codes, [0] * 11)
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
        """3"""
        count = 1
        for length in lengths:
            count *= length
        # the last threadgroup of a row that doesn't fit is smaller, so the first says what was asked for
        out = torch.zeros(count + 1, device="mps", dtype=torch.int32)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            self.run_kernel(
                "groups",
                out,
                dispatch=lambda kernel: self.shim.dispatch_groups(
                    kernel, lengths, group
                ),
            )
        self.assertEqual(out[0].item(), expected)
        self.assertEqual((out != 0).sum().item(), count)
        out.fill_(1)
        graph.replay()
        self.assertEqual(out[0].item(), expected + 1)
        self.assertEqual((out != 1).sum().item(), count)
        if len(lengths) == 1:
            single = torch.zeros_like(out)
            self.run_kernel(
                "groups",
                single,
                dispatch=lambda kernel: self.shim.dispatch_group(
                    kernel, lengths[0], group[0]
                ),
            )
            self.assertEqual(single + 1, out)

    @parametrize("lengths", [[7], [5, 3], [4, 3, 2]])
    def test_grids(self, lengths):
        """3"""
        count = 1
        for length in lengths:
            count *= length
        out = torch.zeros(count + 1, device="mps", dtype=torch.int32)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            self.run_kernel(
                "groups",
                out,
                dispatch=lambda kernel: self.shim.dispatch_array(kernel, lengths),
            )
        self.assertEqual((out != 0).sum().item(), count)
        self.assertEqual(out[-1].item(), 0)
        out.fill_(-5)
        graph.replay()
        self.assertEqual((out != -5).sum().item(), count)
        self.assertEqual(out[-1].item(), -5)

    def test_nothing_to_run(self):
        """A model with an empty input dispatches over no threads."""
        out = torch.zeros(4, device="mps", dtype=torch.int32)
        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            out.add_(1)
            for dispatch in (
                lambda kernel: self.shim.dispatch(kernel, 0),
                lambda kernel: self.shim.dispatch_group(kernel, 0, 4),
                lambda kernel: self.shim.dispatch_array(kernel, [2, 0]),
                lambda kernel: self.shim.dispatch_groups(kernel, [0, 2], [1, 1]),
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
        with self.assert_logged(*expected):
            self.assertEqual(call(), 1)

    def assert_fails_in_block(self, call, *expected, start=True):
        """The call returns the error, and so does the block as a whole."""
        codes = []

        def block():
            if start:
                codes.append(self.shim.start(self.scaling))
                codes.append(self.shim.set_tensor(self.scaling, 1, self.x))
            codes.append(call())

        with self.assert_logged(
            *expected, "AOTInductor on MPS: a call of the command block failed"
        ):
            code = self.shim.run(self.scaling, block)
        self.assertEqual(codes, [0, 0, 1] if start else [1])
        self.assertEqual(code, 1)

    def test_source(self):
        self.assertEqual(self.shim.create_library(None), (1, 0))
        self.assert_fails(
            lambda: self.shim.create_library(None)[0],
            "AOTInductor on MPS: the source of the library is null",
        )
        self.assert_fails(
            self.shim.create_library_nowhere,
            "AOTInductor on MPS: there is no place for the handle of the library",
        )
        self.assert_fails(
            lambda: self.shim.create_library(DOES_NOT_COMPILE)[0], "no_such_name"
        )
        self.assertEqual(self.shim.create_library(DOES_NOT_COMPILE), (1, 0))

    def test_kernel_name(self):
        self.assert_fails(
            lambda: self.shim.get_kernel(0, "scale")[0],
            "AOTInductor on MPS: the handle of the library is null",
        )
        self.assert_fails(
            lambda: self.shim.get_kernel(self.library, None)[0],
            "AOTInductor on MPS: the name of the kernel is null",
        )
        self.assert_fails(
            lambda: self.shim.get_kernel_nowhere(self.library),
            "AOTInductor on MPS: there is no place for the handle of the kernel",
        )
        self.assert_fails(
            lambda: self.shim.get_kernel(self.library, "unknown")[0], "unknown"
        )
        self.assertEqual(self.shim.get_kernel(self.library, "unknown"), (1, 0))

    def test_null_kernel(self):
        message = "AOTInductor on MPS: the handle of the kernel is null"
        self.assert_fails(lambda: self.shim.run(0, lambda: None), message)
        for call in (
            lambda: self.shim.start(0),
            lambda: self.shim.set_tensor(0, 0, self.x),
            lambda: self.shim.set_int(0, 0, 1),
            lambda: self.shim.dispatch(0, 4),
            lambda: self.shim.dispatch_group(0, 4, 4),
            lambda: self.shim.dispatch_array(0, [4]),
            lambda: self.shim.dispatch_groups(0, [4], [4]),
        ):
            self.assert_fails_in_block(call, message)

    def test_callback(self):
        self.assert_fails(
            lambda: self.shim.run_without_callback(self.scaling),
            "AOTInductor on MPS: the callback of the command block is null",
        )
        self.assert_fails(
            lambda: self.shim.run_without_function(self.scaling),
            "AOTInductor on MPS: the function of the command block is null",
        )
        with self.assert_logged("the function of the command block is null"):
            self.shim.call_without_function(self.scaling)
        self.assert_fails(
            lambda: self.shim.run_empty_function(self.scaling), "bad_function_call"
        )
        self.assert_fails(lambda: self.shim.run_throwing(self.scaling), "UNKNOWN")

        def raises():
            raise KeyError("from the callback")

        self.assert_fails(
            lambda: self.shim.run(self.scaling, raises), "from the callback"
        )

    def test_throwing_halfway(self):
        """3: what was dispatched before the callback threw is submitted, and recorded."""
        out = torch.zeros(4, device="mps")

        def block():
            self.shim.start(self.scaling)
            self.shim.set_tensor(self.scaling, 0, out)
            self.shim.set_tensor(self.scaling, 1, self.x)
            self.shim.set_int(self.scaling, 2, 5)
            self.shim.dispatch(self.scaling, 4)
            raise KeyError("halfway")

        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            self.assert_fails(lambda: self.shim.run(self.scaling, block), "halfway")
        self.assertEqual(out.cpu(), torch.arange(4.0) * 5)
        out.zero_()
        graph.replay()
        self.assertEqual(out.cpu(), torch.arange(4.0) * 5)

    def test_nested_blocks(self):
        codes = []
        with self.assert_logged(
            "AOTInductor on MPS: a command block was run on the stream's queue, for which it would wait forever"
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
        for call in (
            lambda: self.shim.start(self.scaling),
            lambda: self.shim.set_tensor(self.scaling, 0, self.x),
            lambda: self.shim.set_int(self.scaling, 0, 1),
            lambda: self.shim.dispatch(self.scaling, 4),
        ):
            self.assert_fails(
                call,
                """AOTInductor on MPS: work is encoded in the callback of aoti_torch_mps_run_command_block() only""",
            )

    def test_before_the_start(self):
        message = """AOTInductor on MPS: call aoti_torch_mps_start_encoding() for this kernel before its arguments are
            set and it is dispatched"""
        adding = self.kernel("add")
        for call in (
            lambda: self.shim.set_tensor(adding, 0, self.x),
            lambda: self.shim.set_int(adding, 0, 1),
            lambda: self.shim.dispatch(adding, 4),
            lambda: self.shim.dispatch_array(adding, [4]),
        ):
            self.assert_fails_in_block(call, message)
            # an encoder of an earlier block is of no use
            self.assert_fails_in_block(call, message, start=False)

    def test_tensors(self):
        for tensor, message in (
            (
                None,
                "AOTInductor on MPS: the handle of the tensor for argument 0 is null",
            ),
            (
                torch.ones(4),
                "AOTInductor on MPS: the tensor for argument 0 is on cpu, not on the MPS device",
            ),
            (
                torch.ones(4, device="meta"),
                "AOTInductor on MPS: the tensor for argument 0 is on meta",
            ),
            (
                torch.tensor(1.0, dtype=torch.float64),
                "AOTInductor on MPS: the number for argument 0 is of type Double, which Metal does not have",
            ),
        ):
            self.assert_fails_in_block(
                lambda: self.shim.set_tensor(self.scaling, 0, tensor), message
            )
        self.assert_fails_in_block(
            lambda: self.shim.set_undefined(self.scaling, 0),
            "AOTInductor on MPS: the tensor for argument 0 is undefined",
        )

    def test_indices(self):
        for index in (31, 2**32 - 1):
            message = f"AOTInductor on MPS: there is no argument {index}; Metal kernels have 31"
            self.assert_fails_in_block(
                lambda: self.shim.set_tensor(self.scaling, index, self.x), message
            )
            self.assert_fails_in_block(
                lambda: self.shim.set_int(self.scaling, index, 1), message
            )
        out = torch.empty(4, device="mps")
        # the last one, which the kernel doesn't look at
        self.run_kernel(
            "scale",
            out,
            self.x,
            3,
            dispatch=lambda kernel: self.shim.set_int(kernel, 30, 1)
            or self.shim.dispatch(kernel, 4),
        )
        self.assertEqual(out.cpu(), torch.arange(4.0) * 3)

    def test_grids(self):
        dimensions = (
            "AOTInductor on MPS: a grid has 1 to 3 dimensions, but this one has {}"
        )
        null = "AOTInductor on MPS: the array of sizes is null"
        differ = """AOTInductor on MPS: the grid and its threadgroups have different numbers of dimensions: 2 and 1"""
        for call, message in (
            (lambda: self.shim.dispatch_array(self.scaling, []), dimensions.format(0)),
            (
                lambda: self.shim.dispatch_array(self.scaling, [1, 1, 1, 1]),
                dimensions.format(4),
            ),
            (lambda: self.shim.dispatch_array(self.scaling, None), null),
            (lambda: self.shim.dispatch_groups(self.scaling, None, [1]), null),
            (lambda: self.shim.dispatch_groups(self.scaling, [1], None), null),
            (lambda: self.shim.dispatch_groups(self.scaling, [2, 2], [2]), differ),
        ):
            self.assert_fails_in_block(call, message)

    def test_threadgroups(self):
        for call in (
            lambda: self.shim.dispatch_group(self.scaling, 4, 0),
            lambda: self.shim.dispatch_group(self.scaling, 4, 2**20),
            lambda: self.shim.dispatch_groups(self.scaling, [4, 4], [2**10, 2]),
            lambda: self.shim.dispatch_groups(
                self.scaling, [4, 4, 4], [2**32, 2**32, 1]
            ),
            lambda: self.shim.dispatch_groups(self.scaling, [4, 4], [1, 0]),
        ):
            self.assert_fails_in_block(
                call,
                "AOTInductor on MPS: threadgroups of shape",
                "but this kernel runs with 1 to",
            )

    def test_nothing_runs_after_an_error(self):
        """Models do not look at the codes of the calls: a kernel must not run with arguments left from another."""
        x, wrong = torch.ones(4, device="mps"), torch.zeros(4, device="mps")
        out = torch.zeros(4, device="mps")
        codes = []

        def block():
            self.shim.start(self.scaling)
            self.shim.set_tensor(self.scaling, 0, wrong)
            self.shim.set_tensor(self.scaling, 1, x)
            self.shim.set_int(self.scaling, 2, 5)
            codes.append(self.shim.set_tensor(self.scaling, 0, torch.ones(4)))
            codes.append(self.shim.dispatch(self.scaling, 4))
            codes.append(self.shim.start(self.scaling))

        graph = torch.mps.MPSGraph()
        with torch.mps.graph(graph):
            out.add_(1)
            self.assert_fails(
                lambda: self.shim.run(self.scaling, block),
                "AOTInductor on MPS: an earlier call of this command block failed",
            )
        self.assertEqual(codes, [1, 1, 1])
        self.assertEqual(wrong.cpu(), torch.zeros(4))
        x.fill_(3)
        graph.replay()
        self.assertEqual(wrong.cpu(), torch.zeros(4))
        self.assertEqual(out.cpu(), torch.full((4,), 2.0))


instantiate_parametrized_tests(TestCalls)


if __name__ == "__main__":
    run_tests()
