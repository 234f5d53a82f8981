"""The rings of `make test`, innermost first. Add a ring by adding a line."""

from __future__ import annotations

from dataclasses import dataclass

# How a ring is counted: a pytest run by its JUnit file, upstream's tests by their JSON report, a
# program by its exit status.
JUNIT, TOTALS, STATUS = "junit", "totals", "status"


@dataclass(frozen=True)
class Ring:
    """One program to run; in `words`, {report} stands for its report file."""

    name: str
    words: tuple[str, ...]
    needs: str
    counted: str = JUNIT
    on_device: bool = False
    on_mac: bool = True
    directory: str = "."


_PYTEST = ("-m", "pytest", "-q", "--junitxml={report}")

RINGS = (
    Ring("fork tool", (*_PYTEST, "-n", "2", "test/fork_tool"), needs="test/fork_tool"),
    Ring("simulator", (*_PYTEST, "test/simulator/tests"), needs="test/simulator/tests", on_mac=False),
    Ring("recorder properties", (*_PYTEST, "test/capture"), needs="test/capture", on_device=True),
    # As upstream's developers run their tests; one level up, `torch` would be the checkout's bare sources.
    Ring(
        "capture cases",
        (*_PYTEST, "-c", "/dev/null", "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider", "test_mps_graph.py"),
        needs="build/pytorch/test/test_mps_graph.py",
        on_device=True,
        directory="build/pytorch/test",
    ),
    Ring("demo", ("test/demo/run.py", "--small"), needs="test/demo/run.py", counted=STATUS, on_device=True),
    Ring(
        "upstream sample",
        (
            "-m",
            "mps_simulator.run_test_mps",
            "--sample",
            "test/simulator/tests/test_mps_sample.txt",
            "--report",
            "{report}",
        ),
        needs="test/simulator/tests/test_mps_sample.txt",
        counted=TOTALS,
        on_mac=False,
    ),
)
