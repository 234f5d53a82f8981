"""What the tests look at."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fork_tool.mac_library.make import Bench
from mac_code.machine import Machine, Snapshot
from mac_code.process import Image
from mac_code.system import MacProcess
from mac_code.tables import Probe, Tables


@dataclass(frozen=True)
class Inputs:
    """The library that `make wheel` made, and what is needed to run it."""

    bench: Bench
    library: Path
    # The official libraries.
    official: Path
    # What stands for macOS's libraries, and what is built to look at them.
    runtime: Path
    # The simulator's library.
    simulator: Path
    new_process: Callable[[], MacProcess]


@dataclass
class Loaded:
    """The process with everything loaded, before the take-over."""

    process: MacProcess
    own: Image
    probe: Probe
    # Before our library was loaded.
    before: Tables
    snapshot: Snapshot
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def machine(self) -> Machine:
        return self.process.machine

    def load_step(self, step: int) -> str:
        """Call the library's one function for its loader; returns why it refuses, or nothing."""
        answer = self.machine.call(self.own.address("_torch_mps_graph_load"), step)
        return self.machine.text(answer) if answer else ""

    def seen(self, fault: str) -> None:
        """Count a planted fault that a check has seen."""
        self.report.setdefault("planted_faults_seen", []).append(fault)
