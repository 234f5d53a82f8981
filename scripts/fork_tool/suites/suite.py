"""What a suite of tests is, and the words with which suites are run; the table of them is test/suites.py."""

from __future__ import annotations

import re
from dataclasses import dataclass

# How a suite is counted: a pytest run by its JUnit file, upstream's tests by their JSON report, a
# program by its exit status.
JUNIT, TOTALS, STATUS = "junit", "totals", "status"

# Each process of a suite that is spread over several imports torch, so that more of them gain little.
_MOST_PROCESSES = 8


@dataclass(frozen=True)
class Suite:
    """One program to run; in `words`, {report} stands for its report file, {processes} for how many it may start."""

    name: str
    words: tuple[str, ...]
    needs: str
    counted: str = JUNIT
    on_device: bool = False
    on_mac: bool = True
    # Runs with nothing beside it.
    measures_time: bool = False
    # For a slow GPU most of the time, so that two processes keep one core busy.
    waits: bool = False
    # Calls the tool to build something: two of these would wait for each other.
    builds: bool = False
    directory: str = "."
    # Runs on the build with this sanitizer.
    sanitizer: str = ""
    # What the simulator is told before the program.
    simulator: tuple[str, ...] = ()
    # Each operator is captured and replayed: see test/upstream/captured.
    captured: bool = False
    # The MPSGraph runs of each capture are linked: test/upstream/captured/mps_linked.py.
    linked: bool = False
    # Wants the tools that upstream checks its sources with.
    upstream_tools: bool = False
    # Wants the libraries of real models.
    model_libraries: bool = False
    # Too long for `make test`: run when it is asked for.
    by_name_only: bool = False

    def cores(self, all_cores: int, most: int = _MOST_PROCESSES) -> int:
        """How many of a machine's cores it is given, at most `most` where it can use several."""
        if self.measures_time:
            return all_cores
        if self.waits:
            return 1
        return min(all_cores, most, _MOST_PROCESSES) if self.is_spread else 1

    @property
    def is_spread(self) -> bool:
        """Whether it can use several cores."""
        return any("{processes}" in word for word in self.words)

    def processes(self, cores: int) -> int:
        """How many processes it is spread over on so many cores."""
        return 2 * cores if self.waits else cores

    @property
    def file_name(self) -> str:
        """The name in those of its reports."""
        return re.sub("[ ,]+", "_", self.name)


# The tests of upstream that the slow ways of running them take.
SMALL_SAMPLE = "test/simulator/sanitizers/test_mps_sample.toml"
# What upstream's tests do otherwise when each operator is captured.
CAPTURED_LIST = ("--further", "test/upstream/captured/remaining_failures.txt")
PYTEST = ("-m", "pytest", "-q", "--junitxml={report}")
# As upstream's developers run their tests; one level up, `torch` would be the checkout's bare sources.
UPSTREAM_STYLE = (*PYTEST, "-c", "/dev/null", "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider")


def upstream_sample(sample: str, version: str = "15.2", file: str = "test_mps.py", touches: bool = False) -> Suite:
    """A part of upstream's tests, on the simulator of a version of macOS; `touches` checks that it runs code of each source."""
    name = f"upstream sample {version}" + ("" if file == "test_mps.py" else f" of {file}")
    words = ("-m", "mps_simulator.run_test_mps", "--macos", version, "--file", file, "--sample", sample)
    rest = (*(["--touches"] if touches else []), "--jobs", "{processes}", "--report", "{report}")
    return Suite(name, (*words, *rest), needs=sample, counted=TOTALS, on_mac=False)
