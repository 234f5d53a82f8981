# Owner(s): ["module: mps"]

"""Cases for the cache of MPSGraph executables."""

import functools
import os
import subprocess
import sys
import threading
import unittest

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


if not torch.backends.mps.is_available():
    raise unittest.SkipTest("MPS is not available")

EXACT = {"atol": 0, "rtol": 0}


def convolution_backward(x):
    weight = x[:, None, :3, :3].detach().requires_grad_()
    loss = F.conv2d(x[None], weight, groups=4).square().sum()
    return torch.autograd.grad(loss, [weight])[0]


WORK = {
    "backward": convolution_backward,
    "matmul": lambda x: x @ x.mT,
    "addmm": lambda x: torch.addmm(x[0], x[0], x[1]),
    "convolution": lambda x: F.conv2d(x[None], x[:, None, :3, :3], groups=4),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "constants": lambda x: torch.eye(5, device="mps") + x[0, :5, :5],
}


def calls(call, *parameters, dtype=torch.float):
    """Each call with its own parameters: the shapes of its inputs, their dtype, and keywords."""
    result = []
    for shapes, keywords in parameters:
        keywords = dict(keywords)
        result.append((call, shapes, keywords.pop("dtype", dtype), keywords))
    return result


def masked_attention(query, key, value, mask, **keywords):
    return F.scaled_dot_product_attention(query, key, value, mask, **keywords)


# Operation -> name that the backend gives its graphs, and calls of which no two have the same parameters. What the
# backend's keys leave out (attention: scale, shape of the mask; transposed convolution: output padding) never differs
# alone.
OPERATIONS = {
    "mm": (
        "mm_out_mps_impl",
        calls(
            torch.mm,
            ([(3, 4), (4, 5)], {}),
            ([(4, 4), (4, 5)], {}),
            ([(3, 6), (6, 5)], {}),
            ([(3, 4), (4, 7)], {}),
            ([(3, 4), (4, 5)], {"dtype": torch.half}),
            ([(3, 4), (4, 5)], {"dtype": torch.bfloat16}),
        ),
    ),
    "bmm": (
        "bmm_out_mps_impl",
        calls(
            torch.bmm,
            ([(2, 3, 4), (2, 4, 5)], {}),
            ([(3, 3, 4), (3, 4, 5)], {}),
            ([(2, 6, 4), (2, 4, 5)], {}),
            ([(2, 3, 6), (2, 6, 5)], {}),
            ([(2, 3, 4), (2, 4, 7)], {}),
            ([(2, 3, 4), (2, 4, 5)], {"dtype": torch.half}),
        ),
    ),
    "addmm": (
        "addmm_out_mps_impl",
        calls(
            torch.addmm,
            ([(5,), (3, 4), (4, 5)], {}),
            ([(5,), (3, 6), (6, 5)], {}),
            ([(5,), (6, 4), (4, 5)], {}),
            ([(5,), (3, 4), (4, 5)], {"beta": 2}),
            ([(5,), (3, 4), (4, 5)], {"alpha": 0.5}),
            ([(5,), (3, 4), (4, 5)], {"dtype": torch.half}),
        ),
    ),
    "conv1d": (
        "mps_convolution",
        calls(
            F.conv1d,
            ([(2, 4, 9), (6, 4, 3)], {}),
            ([(2, 4, 9), (6, 4, 3), (6,)], {}),
            ([(2, 4, 9), (6, 4, 3)], {"stride": 2}),
            ([(2, 4, 9), (6, 2, 3)], {"groups": 2}),
            ([(2, 4, 9), (6, 4, 3)], {"dtype": torch.half}),
        ),
    ),
    "conv2d": (
        "mps_convolution",
        calls(
            F.conv2d,
            ([(2, 4, 9, 8), (6, 4, 3, 3)], {}),
            ([(1, 4, 9, 8), (6, 4, 3, 3)], {}),
            ([(2, 4, 9, 9), (6, 4, 3, 3)], {}),
            ([(2, 4, 9, 8), (6, 4, 3, 2)], {}),
            ([(2, 4, 9, 8), (6, 4, 3, 3), (6,)], {}),
            ([(2, 4, 9, 8), (6, 4, 3, 3)], {"stride": 2}),
            ([(2, 4, 9, 8), (6, 4, 3, 3)], {"stride": (1, 2)}),
            ([(2, 4, 9, 8), (6, 4, 3, 3)], {"padding": 1}),
            ([(2, 4, 9, 8), (6, 4, 3, 3)], {"dilation": 2}),
            ([(2, 4, 9, 8), (6, 2, 3, 3)], {"groups": 2}),
            ([(2, 4, 9, 8), (6, 4, 3, 3)], {"dtype": torch.half}),
        ),
    ),
    "conv_transpose2d": (
        "mps_convolution_backward_input",
        calls(
            F.conv_transpose2d,
            ([(2, 4, 5, 6), (4, 6, 3, 3)], {}),
            ([(2, 4, 7, 6), (4, 6, 3, 3)], {}),
            ([(2, 4, 5, 6), (4, 6, 3, 3)], {"stride": 2}),
            ([(2, 4, 5, 6), (4, 6, 3, 3)], {"stride": 3, "output_padding": 1}),
            ([(2, 4, 5, 6), (4, 6, 3, 3)], {"padding": 1}),
            ([(2, 4, 5, 6), (4, 3, 3, 3)], {"groups": 2}),
            ([(2, 4, 5, 6), (4, 6, 3, 3)], {"dtype": torch.half}),
        ),
    ),
    "attention": (
        "_scaled_dot_product_attention_math_mps",
        calls(
            F.scaled_dot_product_attention,
            ([(2, 3, 4, 8)] * 3, {}),
            ([(2, 3, 4, 16)] * 3, {}),
            ([(2, 5, 4, 8)] * 3, {}),
            ([(2, 3, 6, 8)] * 3, {}),
            ([(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)], {}),
            ([(2, 3, 4, 8)] * 3, {"is_causal": True}),
            ([(2, 3, 4, 8)] * 3, {"dtype": torch.half}),
        )
        + calls(masked_attention, ([(2, 3, 4, 8)] * 3 + [(4, 4)], {})),
    ),
}


def new_inputs(call):
    _, shapes, dtype, _ = call
    return [torch.randn(shape).to(dtype).to("mps") for shape in shapes]


def run(call, inputs):
    function, _, _, keywords = call
    return function(*inputs, **keywords)


def counts_of(operation):
    """Hits and misses of the operation."""
    counts = torch.mps.executable_cache_stats_by_operation().get(
        operation, {"hits": 0, "misses": 0}
    )
    return counts["hits"], counts["misses"]


def check_sums(case):
    """Both breakdowns and the list of entries add up to the totals."""
    stats = torch.mps.executable_cache_stats()
    for parameters in (False, True):
        operations = torch.mps.executable_cache_stats_by_operation(parameters).values()
        for name in ("hits", "misses", "evictions", "entries"):
            case.assertEqual(
                sum(counts[name] for counts in operations), stats[name], name
            )
    case.assertEqual(len(torch.mps.executable_cache_entries()), stats["entries"])


class TestExecutableCache(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch.mps.executable_cache_clear()

    def tearDown(self):
        torch.mps.set_executable_cache_enabled(False)
        torch.mps.set_executable_cache_limit(1024)
        super().tearDown()

    @parametrize("name", list(WORK))
    def test_eager(self, name):
        """From the second call on each run is a hit, and results are those without the cache."""
        inputs = [torch.randn(4, 8, 8, device="mps") for _ in range(4)]
        expected = [WORK[name](x) for x in inputs]
        self.assertEqual(torch.mps.executable_cache_stats()["misses"], 0)
        torch.mps.set_executable_cache_enabled(True)
        runs = 0
        for i, (x, y) in enumerate(zip(inputs, expected)):
            before = torch.mps.executable_cache_stats()
            self.assertEqual(WORK[name](x), y, **EXACT)
            stats = torch.mps.executable_cache_stats()
            hits, misses = (stats[k] - before[k] for k in ("hits", "misses"))
            # the comparison runs graphs too, so look at the operators again
            if i == 0:
                runs = hits + misses
                self.assertGreater(misses, 0)
            else:
                self.assertEqual((hits, misses), (runs, 0))
        self.assertEqual(stats["entries"], stats["misses"])
        self.assertEqual(stats["evictions"], 0)

    @parametrize("limit", [0, 1, 3])
    def test_limit(self, limit):
        """No more entries than that, the least recently used goes, and results stay right."""
        xs = [torch.randn(n, n, device="mps") for n in range(2, 8)]
        expected = [x @ x for x in xs]
        torch.mps.set_executable_cache_limit(limit)
        torch.mps.set_executable_cache_enabled(True)
        for _ in range(2):
            got = [x @ x for x in xs]
        stats = torch.mps.executable_cache_stats()
        self.assertEqual((stats["entries"], stats["limit"]), (limit, limit))
        counts = {"hits": 0, "misses": 12, "evictions": 12 - limit, "entries": limit}
        operations = torch.mps.executable_cache_stats_by_operation()
        self.assertEqual(operations, {"mm_out_mps_impl": counts})
        self.assertEqual(len(torch.mps.executable_cache_entries()), limit)
        check_sums(self)
        torch.mps.set_executable_cache_enabled(False)
        self.assertEqual(got, expected, **EXACT)

    def test_least_recently_used_goes_first(self):
        a, b, c = (torch.ones(n, n, device="mps") for n in (2, 3, 4))
        torch.mps.set_executable_cache_limit(2)
        torch.mps.set_executable_cache_enabled(True)
        for x in (a, b, a, c):  # b goes
            x @ x
        before = torch.mps.executable_cache_stats()
        a @ a
        c @ c
        self.assertEqual(torch.mps.executable_cache_stats()["hits"], before["hits"] + 2)
        b @ b
        self.assertEqual(
            torch.mps.executable_cache_stats()["misses"], before["misses"] + 1
        )

    @parametrize("name", list(OPERATIONS))
    def test_parameters_in_eager(self, name):
        """The same parameters again are a hit of the operation, any others a miss of it."""
        operation, variants = OPERATIONS[name]
        for i, call in enumerate(variants):
            for repeat in range(3):
                inputs = new_inputs(call)
                torch.mps.set_executable_cache_enabled(False)
                expected = run(call, inputs)
                hits, misses = counts_of(operation)
                self.assertEqual(
                    (hits, misses), (2 * i + max(repeat - 1, 0), i + (repeat > 0))
                )
                torch.mps.set_executable_cache_enabled(True)
                got = run(call, inputs)
                self.assertEqual(got, expected, **EXACT)
                self.assertEqual(
                    counts_of(operation), (hits + (repeat > 0), misses + (repeat == 0))
                )
        # a second round compiles nothing
        misses = torch.mps.executable_cache_stats()["misses"]
        for call in variants:
            inputs = new_inputs(call)
            got = run(call, inputs)
            torch.mps.set_executable_cache_enabled(False)
            self.assertEqual(got, run(call, inputs), **EXACT)
            torch.mps.set_executable_cache_enabled(True)
        # comparing runs graphs too, but not those of the operation
        self.assertEqual(counts_of(operation), (3 * len(variants), len(variants)))
        check_sums(self)

    def test_by_parameters(self):
        """The counts of each key, those that are gone from the cache too."""
        torch.mps.set_executable_cache_enabled(True)
        a, b = (torch.ones(n, n, device="mps") for n in (2, 3))
        for x in (a, a, a, b):
            x @ x
        torch.mps.set_executable_cache_limit(1)
        a @ a
        torch.mps.set_executable_cache_enabled(False)
        key = "mm_out_mps_impl:f32[{0},{0}]:f32[{0},{0}]"
        by_key = torch.mps.executable_cache_stats_by_operation(parameters=True)
        by_key = {k: v for k, v in by_key.items() if k.startswith("mm_")}
        self.assertEqual(
            by_key,
            {
                key.format(2): {"hits": 2, "misses": 2, "evictions": 1, "entries": 1},
                key.format(3): {"hits": 0, "misses": 1, "evictions": 1, "entries": 0},
            },
        )
        self.assertEqual(
            torch.mps.executable_cache_stats_by_operation()["mm_out_mps_impl"],
            {"hits": 2, "misses": 3, "evictions": 2, "entries": 1},
        )
        check_sums(self)
        torch.mps.executable_cache_clear()
        self.assertEqual(torch.mps.executable_cache_stats_by_operation(), {})
        self.assertEqual(torch.mps.executable_cache_entries(), [])

    def test_entries(self):
        """What is kept, the last used first, with the shapes and dtypes that it was fed."""
        torch.mps.set_executable_cache_enabled(True)
        x = torch.ones(2, 3, 4, device="mps")
        y = torch.ones(2, 4, 5, device="mps", dtype=torch.half)
        torch.bmm(x, y.float())
        torch.mps.executable_cache_clear()
        for _ in range(2):
            torch.bmm(x, x.mT)
        torch.bmm(y.mT, y)
        torch.bmm(x, x.mT)
        torch.mm(x[0], x[1].mT)
        torch.mps.set_executable_cache_enabled(False)
        entries = [
            e for e in torch.mps.executable_cache_entries() if "mm_" in e["operation"]
        ]
        for entry in entries:
            self.assertEqual(list(entry), ["operation", "key", "inputs", "hits"])
            self.assertTrue(entry["key"].startswith(entry["operation"] + ":"), entry)
        # how many dimensions an operator feeds is its own affair for transposed inputs; what is fed has all elements
        f32, f16 = torch.float32, torch.float16
        elements = [
            [(functools.reduce(int.__mul__, s, 1), d) for s, d in e["inputs"]]
            for e in entries
        ]
        self.assertEqual(
            [(e["operation"], n, e["hits"]) for e, n in zip(entries, elements)],
            [
                ("mm_out_mps_impl", [(12, f32), (12, f32)], 0),
                ("bmm_out_mps_impl", [(24, f32), (24, f32)], 2),
                ("bmm_out_mps_impl", [(40, f16), (40, f16)], 0),
            ],
        )
        self.assertEqual(entries[1]["inputs"][0], ((2, 3, 4), f32))

    @parametrize(
        "dtype",
        [
            torch.uint8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.half,
            torch.bfloat16,
            torch.cfloat,
        ],
    )
    def test_dtypes_of_entries(self, dtype):
        """What is fed has the tensors' dtype, in the order of the operands."""
        x, y = (torch.arange(1, n).to(dtype).to("mps") for n in (3, 4))
        torch.mps.set_executable_cache_enabled(True)
        z = torch.cat([x, y])
        torch.mps.set_executable_cache_enabled(False)
        self.assertEqual(z, torch.tensor([1, 2, 1, 2, 3]).to(dtype), exact_device=False)
        (entry,) = torch.mps.executable_cache_entries()
        self.assertEqual(
            (entry["operation"], entry["inputs"]),
            ("cat_out_mps", [((2,), dtype), ((3,), dtype)]),
        )

    def test_every_graph_has_a_key(self):
        """The backend's operations are all known by name."""
        torch.mps.set_executable_cache_enabled(True)
        x = torch.randn(4, 8, 8, device="mps")
        for work in WORK.values():
            work(x)
        torch.arange(7, device="mps")
        torch.linspace(0, 1, 5, device="mps")
        by_operation = torch.mps.executable_cache_stats_by_operation()
        self.assertNotIn("", by_operation)
        self.assertTrue(
            {"arange_mps_out", "linspace_out_mps", "softmax_mps_out"}
            <= set(by_operation),
            by_operation,
        )

    def test_threads(self):
        """Whichever thread comes first compiles; looking at the cache meanwhile disturbs nothing."""
        inputs = {n: torch.randn(n, n).to("mps") for n in (2, 3, 4)}
        expected = {n: x @ x for n, x in inputs.items()}
        wrong = []

        def work():
            for _ in range(10):
                for n, x in inputs.items():
                    if not torch.equal((x @ x).cpu(), expected[n].cpu()):
                        wrong.append(n)

        torch.mps.set_executable_cache_enabled(True)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.assertLessEqual(counts_of("mm_out_mps_impl")[1], 3)
            torch.mps.executable_cache_entries()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(counts_of("mm_out_mps_impl"), (4 * 10 * 3 - 3, 3))
        check_sums(self)

    def test_environment_variable(self):
        program = "import torch; print(torch.mps.is_executable_cache_enabled())"
        for value, enabled in (("1", "True"), ("0", "False")):
            environment = {**os.environ, "PYTORCH_MPS_EXECUTABLE_CACHE": value}
            output = subprocess.check_output(
                [sys.executable, "-c", program], env=environment, text=True
            )
            self.assertEqual(output.strip(), enabled)


instantiate_parametrized_tests(TestExecutableCache)

if __name__ == "__main__":
    run_tests()
