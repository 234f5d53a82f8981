"""The suites of `make test` and those that run by name, innermost first. Add a suite by adding a line.

The fork tool reads SUITES and QUICK; scripts/fork_tool/suites/suite.py says what each field means.
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
    "test/properties/capture/test_kernel_hazards.py",
    "test/properties/capture/test_replay_calls.py",
)
_CAPTURE_FILES = (
    "test_mps_graph.py",
    "test_mps_graph_pool.py",
    "test_mps_graphed_callables.py",
    "test_mps_graphed_order.py",
    "test_mps_graph_optimizers.py",
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


def _capture_cases(name: str, *files: str) -> Suite:
    words = (*_UPSTREAM_STYLE, *_SPREAD, *files)
    return Suite(name, words, on_device=True, directory="build/pytorch/test")


# Without those that start processes of their own, for the slow ways to run them.
_ONE_PROCESS = _capture_cases("capture cases", *(file for file in _CAPTURE_FILES if "processes" not in file))


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
_SANITIZED = (
    *_sanitized(
        "address",
        Suite("planted faults", (*_PYTEST, "test/simulator/sanitizers/test_address.py")),
        Suite("cases", (*_PYTEST, *_OBJECTIVE_CASES)),
        _ONE_PROCESS,
        _SMALL,
    ),
    *_sanitized(
        "thread",
        Suite("planted faults", (*_PYTEST, "test/simulator/sanitizers/test_thread.py"), by_name_only=True),
        Suite("cases", (*_PYTEST, *_OBJECTIVE_CASES), by_name_only=True),
    ),
)

_SAMPLE = "test/simulator/tests/test_mps_sample.toml"

# One of a check and one of the series' Python, which need no build, and one of the engine, for which one file is compiled.
_FEW_MUTANTS = ("sweep-compares-nothing", "optimizer-check-dropped", "binding-offset-lost")

# Those of `make test QUICK=1`.
QUICK = ("fork tool", "capture cases", "small upstream sample")

SUITES = (
    Suite("fork tool", (*_PYTEST, *_SPREAD, "test/tools/fork_tool")),
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
    Suite("mac library", (*_PYTEST, "test/mac_wheel/library"), on_mac=False, load=BUILDS),
    Suite("mac code", (*_PYTEST, "test/mac_wheel/emulated"), on_mac=False, load=BUILDS),
    # Its environment is one of its own, with another torch.
    Suite("next base", (*_PYTEST, "test/releases/wheels"), on_mac=False, load=BUILDS),
    Suite("simulator", (*_PYTEST, *_SPREAD, "test/simulator/tests"), on_mac=False),
    # As a contributor without a Mac uses it: the base's backend, without the series.
    Suite("base only", (*_PYTEST, "test/simulator/base_only"), on_mac=False, load=BUILDS),
    Suite("recorder properties", (*_PYTEST, *_SPREAD, "test/properties/capture"), on_device=True),
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
    _capture_cases("capture cases", *_CAPTURE_FILES),
    replace(_capture_cases("capture cases, ahead", *_CAPTURE_FILES), mode=AHEAD),
    Suite("C++ tests", (*_PYTEST, "test/cpp"), on_mac=False),
    # The backend of the base below, the patched one on top as a library: as in the wheel for a Mac.
    Suite("layered", (*_PYTEST, "test/mac_wheel/layered"), on_mac=False, by_name_only=True),
    Suite("custom kernels", (*_PYTEST, "test/examples"), on_device=True),
    # Pauses at random show what does not wait for the GPU, or waits for the wrong thing; with seed 1 each dispatch_sync
    # runs its block on another thread, and executables commit wherever nothing forbids it.
    replace(
        _ONE_PROCESS,
        name="capture cases, delayed GPU",
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
    _sweep("sample of the sweep", "--sample", "60", "--report", "build/reports/sweep_sample.json"),
    _sweep(
        *("sample of the sweep, metadata", "--sample", "600", "--state"),
        *("--report", "build/reports/sweep_state_sample.json"),
    ),
    # Without replays nothing may be equal, or the ones above prove nothing.
    _sweep(
        *("sample of the sweep, no replays", "--sample", "300", "--no-replay"),
        *("--report", "build/reports/sweep_no_replay.json"),
    ),
    Suite(
        "operators without a kernel",
        (
            *("test/programs/sweep/without_kernel.py", "--only", "cummax", "--only", "heaviside", "--only", "take"),
            *("--only", "linalg.svdvals", "--only", "sinc"),
        ),
        on_device=True,
        on_mac=False,
    ),
    Suite("order of use", (*_PYTEST, "test/properties/orders"), on_device=True),
    Suite("order of use, ahead", (*_PYTEST, "test/properties/orders"), on_device=True, mode=AHEAD),
    Suite("demo", ("test/programs/demo/run.py", "--small"), on_device=True),
    Suite("benchmark", (*_PYTEST, "test/programs/benchmark/tests"), on_device=True),
    Suite(
        "quick benchmark",
        ("test/programs/benchmark/run.py", "--quick", "--report", "build/reports/bench_quick.json"),
        on_device=True,
        load=ALONE,
    ),
    _models("models", "--quick", "--report", "build/reports/models_quick.json"),
    # Without replays nothing may be equal, or the one above proves nothing.
    _models(
        "models, no replays",
        *("--no-replay", "--only", "bert", "--only", "resnet18 (torchvision)"),
        *("--only", "generate llama (static, library)", "--only", "generate llama (static, by hand)"),
        *("--report", "build/reports/models_no_replay.json"),
    ),
    _programs(
        "programs",
        *("--only", "trainer", "--only", "gan", "--only", "adapters", "--only", "transcription", "--only", "dit"),
    ),
    _programs("programs, no replays", *("--no-replay", "--only", "gan", "--only", "transcription")),
    Suite(
        "graph caching",
        ("test/programs/graph_caching/run.py", "--small", "--report", "build/reports/graph_caching_small.json"),
        on_device=True,
    ),
    *(
        upstream_sample(_SAMPLE, version, file, touches=True)
        for version, file in (("15.2", "test_mps.py"), ("14.5", "test_mps.py"), ("15.2", "test_optim.py"))
    ),
    replace(_SMALL, name="small upstream sample", by_name_only=True),
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
