"""Processes that measure: one may fall back to the CPU, one may not, since torch decides that once, at its import."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, IO

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
        self._fallback = fallback
        self._timeout = timeout
        self._command = [sys.executable, *command]
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._said: deque[str] = deque(maxlen=1)
        self._listener = threading.Thread()
        self._device: Device | None = None

    @property
    def device(self) -> Device:
        """The device that it measures on."""
        if self._device is None:
            self._start()
        assert self._device
        return self._device

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Give it a job and wait for the answer."""
        if self._process is None:
            self._start()
        assert self._process and self._process.stdin
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except OSError:
            # It has ended; the queue says so.
            pass
        return self._answer(self._timeout)

    def close(self) -> None:
        """Let it end."""
        if self._process is None:
            return
        assert self._process.stdin
        try:
            self._process.stdin.close()
            self._process.wait(10.0)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process = None

    def _start(self) -> None:
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=child_environment(self._fallback),
        )
        self._said = deque(maxlen=1)
        threading.Thread(target=_read, args=(self._process.stdout, self._lines.put, True), daemon=True).start()
        self._listener = threading.Thread(target=_read, args=(self._process.stderr, self._said.append), daemon=True)
        self._listener.start()
        try:
            greeting = self._answer(_START_SECONDS)
        except Died as problem:
            raise ForkToolError(
                f"The process that measures does not start ({problem}): `scripts/mpsfork doctor` shows what this machine lacks."
            ) from None
        if "error" in greeting:
            raise ForkToolError(f"Nothing can be measured: {greeting['error']}.")
        self._device = Device(**greeting["device"])

    def _answer(self, timeout: float) -> dict[str, Any]:
        assert self._process
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            self._end()
            raise Died(f"no answer for {timeout:.0f} s") from None
        except BaseException:
            self._end()
            raise
        if line is None:
            status = _status(self._end())
            self._listener.join(1.0)
            last = "".join(self._said).strip()
            raise Died(f"the process ended with {status}{f', saying: {last}' if last else ''}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._end()
            raise Died(f"it said {line.strip()!r}")
        return answer

    def _end(self) -> int:
        assert self._process
        process, self._process = self._process, None
        if process.poll() is None:
            try:
                # After its last line it may take a moment to be gone.
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait()


def _read(stream: IO[str], put: Callable[[Any], None], mark_end: bool = False) -> None:
    for line in stream:
        if line.strip():
            put(line)
    if mark_end:
        put(None)


def _status(code: int) -> str:
    if code >= 0:
        return f"status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
