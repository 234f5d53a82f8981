"""What a suite of tests is, and the table of them in test/suites.py."""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import Layout

# How a suite is counted: pytest by its JUnit file, upstream's tests by their JSON report, any other program by its
# exit status.
JUNIT, TOTALS, STATUS = "junit", "totals", "status"
# What a suite does to the machine. ALONE: it measures time, so nothing may run beside it. WAITS: for a slow GPU, so
# that two processes keep one core busy. BUILDS: it calls the tool to build, and two of these would wait for each other.
ALONE, WAITS, BUILDS = "alone", "waits", "builds"
# How a suite is run: each operator is captured and replayed, or replays are encoded before they are asked for.
CAPTURED, AHEAD = "captured", "ahead"
# What is installed first: the tools that upstream checks its sources with, the libraries of real models, or a browser.
UPSTREAM_TOOLS, MODEL_LIBRARIES, BROWSER = "upstream tools", "model libraries", "browser"

# Each process of a suite that is spread over several imports torch, so that more of them gain little.
_MOST_PROCESSES = 8
PYTEST = ("-m", "pytest", "-q", "--junitxml={report}")
# As upstream's developers run their tests; one level up, `torch` would be the checkout's bare sources.
UPSTREAM_STYLE = (*PYTEST, "-c", "/dev/null", "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider")
_UPSTREAM_TESTS = ("-m", "mps_simulator.run_test_mps")
# The tests of upstream that the slow ways of running them take.
SMALL_SAMPLE = "test/simulator/sanitizers/test_mps_sample.toml"
# What upstream's tests do otherwise when each operator is captured.
CAPTURED_LIST = ("--further", "test/upstream/captured/remaining_failures.txt")


@dataclass(frozen=True)
class Suite:
    """One program to run; in `words`, {report} stands for its report file, {processes} for how many it may start."""

    name: str
    words: tuple[str, ...]
    on_device: bool = False
    on_mac: bool = True
    # ALONE, WAITS or BUILDS.
    load: str = ""
    # CAPTURED, AHEAD, or the sanitizer on whose build it runs.
    mode: str = ""
    # UPSTREAM_TOOLS, MODEL_LIBRARIES or BROWSER.
    packages: str = ""
    directory: str = "."
    # What the simulator is told before the program.
    simulator: tuple[str, ...] = ()
    # Further words with which it is short enough for `make test`; None: it runs with ALL=1 only.
    brief: tuple[str, ...] | None = None

    @property
    def counted(self) -> str:
        """JUNIT, TOTALS or STATUS."""
        if self.words[:2] == _UPSTREAM_TESTS:
            return TOTALS
        return JUNIT if self.words[:2] == PYTEST[:2] else STATUS

    @property
    def is_spread(self) -> bool:
        """Whether it can use several cores."""
        return any("{processes}" in word for word in self.words)

    @property
    def file_name(self) -> str:
        """The name in those of its reports."""
        return re.sub("[ ,]+", "_", self.name)

    def cores(self, all_cores: int, most: int = _MOST_PROCESSES) -> int:
        """How many of a machine's cores it is given, at most `most` where it can use several."""
        if self.load == ALONE:
            return all_cores
        return min(all_cores, most, _MOST_PROCESSES) if self.is_spread and self.load != WAITS else 1

    def processes(self, cores: int) -> int:
        """How many processes it is spread over on so many cores."""
        return 2 * cores if self.load == WAITS else cores

    def missing(self, root: Path) -> list[str]:
        """The files and folders that its words name and that are not there."""
        elsewhere = self.directory != "."
        places = [word for word in self.words if word.endswith(".py") and elsewhere or word.startswith("test/")]
        return [place for place in places if not (root / self.directory / place.partition("::")[0]).exists()]


def upstream_sample(sample: str, version: str = "15.2", file: str = "test_mps.py", touches: bool = False) -> Suite:
    """A part of upstream's tests, on the simulator of a version of macOS; `touches` checks that it runs code of each source."""
    name = f"upstream sample {version}" + ("" if file == "test_mps.py" else f" of {file}")
    words = ("--macos", version, "--file", file, "--sample", sample, *(["--touches"] if touches else []))
    return Suite(name, (*_UPSTREAM_TESTS, *words, "--jobs", "{processes}", "--report", "{report}"), on_mac=False)


def ported_suite(name: str, file: str) -> Suite:
    """One of upstream's files, ported to MPS by test/upstream/ported."""
    words = ("--ported", "--file", file, "--jobs", "{processes}", "--report", "{report}")
    return Suite(f"upstream ported, {name}", (*_UPSTREAM_TESTS, *words), on_mac=False)


def load_suites(layout: Layout) -> tuple[Suite, ...]:
    """The suites of a working copy, in order. Raises ForkToolError if test/suites.py is missing or has no table."""
    shown = layout.shown(layout.suites)
    if not layout.suites.is_file():
        raise ForkToolError(f"{shown} is missing: bring it back with `git checkout -- {shown}`.")
    spec = importlib.util.spec_from_file_location("suites_of_this_working_copy", layout.suites)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return tuple(module.SUITES)
    except Exception as problem:
        raise ForkToolError(f"{shown} can't be read ({type(problem).__name__}: {problem}): correct it.") from problem
