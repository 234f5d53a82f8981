"""Processes that measure: one may fall back to the CPU, one may not, since torch decides that once, at its import."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from fallback_bench.device import Device
from fork_tool.common.errors import ForkToolError

SCRIPTS = Path(__file__).resolve().parents[1]
VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"
_START_SECONDS = 180.0


class Died(Exception):
    """The process ended or fell silent in the middle of a job; the text says how."""


def child_environment(fallback: bool) -> dict[str, str]:
    """The environment of a process with the device, and with or without the fallback."""
    path = os.pathsep.join(part for part in (str(SCRIPTS), os.environ.get("PYTHONPATH", "")) if part)
    environment = os.environ | {VARIABLE: "1" if fallback else "0", "PYTHONPATH": path}
    if sys.platform == "linux":
        # Where there is no other device; in null mode nothing would be computed.
        environment |= {"MPS_SIMULATOR": "1", "MPS_SIMULATOR_NULL_MODE": "0"}
    return environment


class Worker:
    """One such process, started when it is first needed and again after it died."""

    def __init__(
        self, fallback: bool, timeout: float, command: Sequence[str] = ("-m", "fallback_bench.worker")
    ) -> None:
        self._fallback, self._timeout, self._command = fallback, timeout, command
        self._process: subprocess.Popen[bytes] | None = None
        self._device: Device | None = None

    @property
    def device(self) -> Device:
        if self._device is None:
            self._start()
        assert self._device
        return self._device

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._start()
        # If it has ended, waiting for the answer says so.
        with contextlib.suppress(OSError):
            self._pipe.send(job)
        return self._answer(self._timeout)

    def close(self) -> None:
        if self._process:
            self._pipe.close()
            self._end(10.0)

    def _start(self) -> None:
        self._pipe, other = Pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        with other:
            self._process = subprocess.Popen(
                [sys.executable, *self._command, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdout=self._said,
                stderr=self._said,
                env=child_environment(self._fallback),
            )
        try:
            greeting = self._answer(_START_SECONDS)
        except Died as problem:
            raise ForkToolError(
                f"The process that measures does not start ({problem}): `scripts/mpsfork doctor` shows what this machine lacks."
            ) from None
        if "error" in greeting:
            raise ForkToolError(f"Nothing can be measured: {greeting['error']}.")
        self._device = greeting["device"]

    def _answer(self, timeout: float) -> dict[str, Any]:
        try:
            if self._pipe.poll(timeout):
                answer: dict[str, Any] = self._pipe.recv()
                return answer
        except (EOFError, OSError):
            # After its last word it may take a moment to be gone.
            status = self._end(1.0)
            shown = f"status {status}" if status >= 0 else signal.Signals(-status).name
            self._said.seek(0)
            last = self._said.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise Died(f"the process ended with {shown}{f', saying: {last}' if last else ''}") from None
        except BaseException:
            self._end(0.0)
            raise
        self._end(0.0)
        raise Died(f"no answer for {timeout:.0f} s")

    def _end(self, seconds: float) -> int:
        assert self._process
        process, self._process = self._process, None
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
