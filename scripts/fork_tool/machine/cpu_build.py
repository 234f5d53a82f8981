"""torch without CUDA's libraries, where an index of such builds answers: PyPI's wheel for Linux can't be imported without them."""

from __future__ import annotations

import os
import re
import subprocess

from fork_tool.base.pin import Pin
from fork_tool.common.console import note, say
from fork_tool.common.processes import run_shown
from fork_tool.machine.machine import Machine
from fork_tool.machine.package_index import pip_command
from fork_tool.paths import Layout

INDEX_VARIABLE = "MPSFORK_CPU_INDEX"
# Bounds the whole request, DNS look-up included: a machine without access waits no longer.
ANSWER_SECONDS = 5.0


def install_cpu_build(layout: Layout, pin: Pin, machine: Machine) -> bool:
    """Install the base's torch from the index of CPU builds; false, with the reason printed, where pip's own index must be used."""
    index = os.environ.get(INDEX_VARIABLE, pin.cpu_index)
    if machine.is_mac or not index:
        return False
    version = f"{pin.wheel_version}+cpu"
    lacks = _lacks([str(layout.python), "-m", "pip"], index, pin.wheel_name, version)
    if not lacks:
        say(f"installing {pin.wheel_name} {version} from {index}, which needs none of CUDA's libraries")
        # What it needs besides comes with the other requirements, from the index that they come from.
        words = ["--index-url", index, f"{pin.wheel_name}=={version}"]
        if not run_shown(pip_command(layout.python, words), layout.root):
            return True
        lacks = "pip could not install it (see above)"
    note(f"{version} can't be downloaded from {index}: {lacks}; {pin.wheel} comes with 2.7 GB of CUDA's libraries")
    return False


def _lacks(pip: list[str], index: str, name: str, version: str) -> str:
    """Why the index is of no use; empty if it has this version for this interpreter."""
    words = (
        "index",
        "versions",
        "--disable-pip-version-check",
        "--retries",
        "0",
        "--timeout",
        "3",
        "--index-url",
        index,
    )
    try:
        # pip knows the user's proxies and certificates.
        done = subprocess.run(
            [*pip, *words, name],
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_SECONDS,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {ANSWER_SECONDS:.0f} s"
    except OSError as problem:
        return f"pip does not run ({problem.strerror})"
    available = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if available and version in available[1].split(", "):
        return ""
    return "it does not answer, or lacks this version"
