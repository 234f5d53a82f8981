"""The suites of `make test ALL=1`, innermost first; those with `brief` are `make test`. Add a suite by adding a line.

scripts/fork_tool/suites/suite.py says what each field means, and test/README.md what each suite shows.
"""

from __future__ import annotations

from dataclasses import replace

from fork_tool.suites.suite import (
    AHEAD,
    ALONE,
    BROWSER,
    BUILDS,
    CAPTURED,
    CAPTURED_LIST,
    MODEL_LIBRARIES,
    ported_suite,
    PYTEST,
    SMALL_SAMPLE,
    Suite,
    upstream_sample,
    UPSTREAM_STYLE,
    UPSTREAM_TOOLS,
    WAITS,
)

# Collections of garbage in tests leave out what torch keeps for ever.
_FROZEN = ("-p", "mps_simulator.frozen_objects")
_PYTEST, _UPSTREAM_STYLE = (*PYTEST, *_FROZEN), (*UPSTREAM_STYLE, *_FROZEN)
# For suites whose tests stand alone.
_SPREAD = ("-n", "{processes}")
# Those of the simulator's own tests that are written in Objective-C++.
_OBJECTIVE_CASES = ("test/simulator/tests/test_metal.py",)

# Those whose kernels become indirect command buffers.
_INDIRECT_FILES = (
    "test/properties/recorder/test_kernel_hazards.py",
    "test/properties/recorder/test_replay_calls.py",
)
_CAPTURE_FILES = (
    "test_mps_graph.py",
    "test_mps_graph_pool.py",
    "test_mps_graphed_callables.py",
    "test_mps_graphed_order.py",
    "test_mps_graph_optimizers.py",
    "test_mps_graph_hooks.py",
    "test_mps_graph_parity.py",
    "test_mps_graph_bindings.py",
    "test_mps_graph_sampling.py",
    "test_mps_graph_state.py",
    "test_mps_traced_graph.py",
    "test_mps_executable_cache.py",
    "test_mps_graph_executables.py",
    "test_mps_graph_compile.py",
    "test_mps_graph_errors.py",
    "test_mps_graph_processes.py",
    "test_mps_graph_ahead.py",
    "test_mps_aoti_shim.py",
)


# The slow ways to run the cases leave out half of their time: tests that start processes, and training with each
# optimizer, which makes the same calls of the engine as other tests.
_OFTEN_RUN = tuple(file for file in _CAPTURE_FILES if "processes" not in file and "optimizers" not in file)


def _capture_cases(name: str, *files: str) -> Suite:
    words = (*_UPSTREAM_STYLE, *_SPREAD, *files)
    return Suite(name, words, on_device=True, directory="build/pytorch/test")


def _models(name: str, *words: str) -> Suite:
    words = ("test/programs/real_models/run.py", *words)
    return Suite(name, words, on_device=True, on_mac=False, packages=MODEL_LIBRARIES)


def _programs(name: str, *words: str) -> Suite:
    words = ("test/programs/real_models/run_programs.py", *words)
    return Suite(name, words, on_device=True, on_mac=False, packages=MODEL_LIBRARIES)


def _sweep(name: str, *words: str) -> Suite:
    return Suite(name, ("test/programs/sweep/run.py", "--jobs", "{processes}", *words), on_mac=False)


def _sanitized(kind: str, *suites: Suite) -> tuple[Suite, ...]:
    return tuple(
        replace(suite, name=f"{suite.name}, {kind} sanitizer", mode=kind, on_device=True, on_mac=False)
        for suite in suites
    )


_SMALL = upstream_sample(SMALL_SAMPLE)
_WITHOUT_KERNELS = "not kernel and not buffer and not pointers and not declaration and not lane and not pending_fails"
_SANITIZED = (
    *_sanitized(
        "address",
        Suite("planted faults", (*_PYTEST, "test/simulator/sanitizers/test_address.py")),
        Suite("cases", (*_PYTEST, *_OBJECTIVE_CASES)),
        _capture_cases("capture cases", *_OFTEN_RUN),
        _SMALL,
    ),
    *_sanitized(
        "thread",
        Suite("planted faults", (*_PYTEST, "test/simulator/sanitizers/test_thread.py")),
        # Not the cases that run kernels: a fault in a guarded buffer ends a process with this sanitizer. Nor the one
        # that needs torch's device, which this build does not have.
        Suite("cases", (*_PYTEST, *_OBJECTIVE_CASES, "-k", _WITHOUT_KERNELS)),
    ),
)

_SAMPLE = "test/simulator/tests/test_mps_sample.toml"

# One of a check and one of the series' Python, which need no build, and one of the engine, for which one file is compiled.
_FEW_MUTANTS = ("sweep-compares-nothing", "optimizer-numbers-unwatched", "binding-offset-lost")

SUITES = (
    Suite("fork tool", (*_PYTEST, *_SPREAD, "test/tools/fork_tool"), brief=()),
    Suite("fallback bench", (*_PYTEST, "test/tools/fallback_bench"), on_device=True),
    Suite("browser", (*_PYTEST, "test/tools/browser"), on_device=True, on_mac=False, packages=BROWSER),
    # A Mac has lintrunner, and the rest needs no device.
    Suite(
        "upstream checks",
        (*_PYTEST, *_SPREAD, "--dist", "loadfile", "test/upstream/checks"),
        on_mac=False,
        packages=UPSTREAM_TOOLS,
    ),
    Suite("workflows", (*_PYTEST, "test/tools/workflows"), on_mac=False),
    # Part of it reads what the simulator's build compiled.
    Suite("mac wheel library", (*_PYTEST, "test/mac_wheel/library"), on_mac=False, load=BUILDS),
    Suite("mac wheel emulated", (*_PYTEST, "test/mac_wheel/emulated"), on_mac=False, load=BUILDS),
    # It has a separate environment, with the torch of the release.
    Suite("releases", (*_PYTEST, "test/releases/wheels"), on_mac=False, load=BUILDS),
    Suite("simulator", (*_PYTEST, *_SPREAD, "test/simulator/tests"), on_mac=False),
    # As a contributor without a Mac uses it: the base's backend, without the series.
    Suite("base only", (*_PYTEST, "test/simulator/base_only"), on_mac=False, load=BUILDS),
    # Training a transformer takes a third of its time; a small convolutional net remains.
    Suite(
        "recorder properties",
        (*_PYTEST, *_SPREAD, "test/properties/recorder"),
        on_device=True,
        # For the recipe that decodes with transformers.
        packages=MODEL_LIBRARIES,
        brief=("-k", "not transformer"),
    ),
    # Indirect command buffers depend on the family of the GPU, which is Apple8 elsewhere.
    *(
        replace(
            Suite(f"indirect commands, Apple{family}", (*_PYTEST, *_SPREAD, *_INDIRECT_FILES)),
            on_device=True,
            on_mac=False,
            simulator=("--gpu-family", family),
        )
        for family in ("7", "9")
    ),
    replace(_capture_cases("capture cases", *_CAPTURE_FILES), brief=()),
    replace(_capture_cases("capture cases, ahead", *_OFTEN_RUN), mode=AHEAD),
    Suite("C++ tests", (*_PYTEST, "test/cpp"), on_mac=False, brief=()),
    # The backend of the base below, the patched one on top as a library: as in the wheel for a Mac.
    Suite("mac wheel layered", (*_PYTEST, "test/mac_wheel/layered"), on_mac=False, load=BUILDS),
    Suite("examples", (*_PYTEST, "test/examples"), on_device=True),
    # Pauses at random show what does not wait for the GPU, or waits for the wrong thing; with seed 1 each dispatch_sync
    # runs its block on another thread, and executables commit wherever nothing forbids it.
    replace(
        _capture_cases("capture cases, delayed GPU", *_OFTEN_RUN),
        on_mac=False,
        load=WAITS,
        simulator=("--delay-us", "300", "--seed", "1"),
    ),
    # A GPU that is done at once leaves the host no time to touch what it uses. This one pauses each time.
    replace(
        _SMALL,
        name="upstream sample, delayed GPU",
        on_device=True,
        load=WAITS,
        simulator=("--delay-us", "2000", "--seed", "5"),
    ),
    _sweep("sweep", "--sample", "60", "--report", "build/reports/sweep_sample.json"),
    _sweep(
        *("sweep, metadata", "--sample", "600", "--state"),
        *("--report", "build/reports/sweep_state_sample.json"),
    ),
    # Without replays nothing may be equal, or the ones above prove nothing.
    _sweep(
        *("sweep, no replays", "--sample", "300", "--no-replay"),
        *("--report", "build/reports/sweep_no_replay.json"),
    ),
    _sweep(
        *("sweep, compiled", "--compiled", "--sample", "40", "--samples", "1"),
        *("--report", "build/reports/sweep_compiled_sample.json"),
    ),
    _sweep(
        *("sweep, compiled, no replays", "--compiled", "--no-replay", "--sample", "100", "--samples", "1"),
        *("--report", "build/reports/sweep_compiled_no_replay.json"),
    ),
    Suite(
        "sweep, without a kernel",
        (
            *("test/programs/sweep/without_kernel.py", "--only", "cummax", "--only", "heaviside", "--only", "take"),
            *("--only", "linalg.svdvals", "--only", "sinc"),
        ),
        on_device=True,
        on_mac=False,
    ),
    Suite("orders", (*_PYTEST, "test/properties/orders"), on_device=True, brief=()),
    Suite("orders, ahead", (*_PYTEST, "test/properties/orders"), on_device=True, mode=AHEAD),
    Suite("demo", ("test/programs/demo/run.py", "--small"), on_device=True),
    Suite("benchmark", (*_PYTEST, "test/programs/benchmark/tests"), on_device=True),
    Suite(
        "benchmark, quick",
        ("test/programs/benchmark/run.py", "--quick", "--report", "build/reports/bench_quick.json"),
        on_device=True,
        load=ALONE,
    ),
    replace(
        _models("real models", "--quick", "--report", "build/reports/models_quick.json"),
        brief=("--only", "bert", "--only", "resnet18 (torchvision)"),
    ),
    # Without replays nothing may be equal, or the one above proves nothing.
    _models(
        "real models, no replays",
        *("--no-replay", "--only", "bert", "--only", "generate llama (static, by hand)"),
        *("--report", "build/reports/models_no_replay.json"),
    ),
    replace(
        _programs(
            "programs",
            *("--only", "trainer", "--only", "gan", "--only", "adapters", "--only", "transcription", "--only", "dit"),
        ),
        brief=(),
    ),
    _programs("programs, no replays", *("--no-replay", "--only", "gan", "--only", "transcription")),
    Suite(
        "graph caching",
        ("test/programs/graph_caching/run.py", "--small", "--report", "build/reports/graph_caching_small.json"),
        on_device=True,
    ),
    *(upstream_sample(_SAMPLE, file=file, touches=True) for file in ("test_mps.py", "test_optim.py")),
    upstream_sample(SMALL_SAMPLE, "14.5"),
    *(
        ported_suite(name, file)
        for name, file in (
            ("graph trees", "inductor/test_cudagraph_trees.py"),
            ("aotdispatch", "functorch/test_aotdispatch.py"),
            ("backends", "dynamo/test_backends.py"),
        )
    ),
    replace(_SMALL, name="small upstream sample", brief=()),
    replace(_SMALL, name="upstream sample, captured", words=(*_SMALL.words, *CAPTURED_LIST), mode=CAPTURED),
    Suite(
        "mutants",
        (
            *("scripts/mpsfork", "mutants", "--report", "build/reports/mutants_few.json"),
            *(word for name in _FEW_MUTANTS for word in ("--mutant", name)),
        ),
        on_mac=False,
        load=BUILDS,
    ),
    *_SANITIZED,
)
