"""Which device this is, in the words that every table and file carries."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SIMULATED = "simulated"


@dataclass(frozen=True)
class Device:
    """Where numbers come from."""

    simulated: bool
    name: str
    torch: str

    @property
    def heading(self) -> str:
        """The sentence above each table."""
        if self.simulated:
            return (
                f"SIMULATED ({self.name}, torch {self.torch}): times of a simulator on a CPU say nothing about a Mac; "
                "which operators fall back, and what stops a capture, is real."
            )
        return f"Measured on {self.name}, torch {self.torch}."


def this_device() -> Device:
    """The device of this process, which has imported torch."""
    import torch

    threads = f"{torch.get_num_threads()} CPU threads"
    if "mps_simulator" in sys.modules:
        import mps_simulator

        if mps_simulator.is_installed():
            version = ".".join(map(str, mps_simulator.macos_version()))
            name = f"{SIMULATED} macOS {version} on {_processor()}, {threads}"
            return Device(True, name, torch.__version__)
    return Device(False, f"{_processor()}, macOS {platform.mac_ver()[0] or '?'}, {threads}", torch.__version__)


def _processor() -> str:
    try:
        if platform.system() == "Darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return platform.machine()
