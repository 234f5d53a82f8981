"""A child of fork() must not use the device, and learns so by an exception: nothing aborts it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
import sys

import mps_simulator

mps_simulator.install()
import torch

x = torch.ones(4, device="mps") + 1
torch.mps.synchronize()
child = os.fork()
if child == 0:
    for work in (lambda: x + 1, lambda: x.cpu(), lambda: torch.ones(3, device="mps"), torch.mps.synchronize):
        try:
            work()
            print("worked", flush=True)
        except RuntimeError as error:
            print(str(error).splitlines()[0], flush=True)
    del x
    sys.stdout.flush()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print((x + 1).tolist())
"""


def test_violation_in_a_forked_child_reaches_python() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *child, parent = done.stdout.splitlines()
    assert parent == "[3.0, 3.0, 3.0, 3.0]"
    assert len(child) == 4
    for line in child:
        assert line.startswith("Metal validation (simulator): ")
        assert "cannot be used in the child" in line
    assert "terminate" not in done.stderr
