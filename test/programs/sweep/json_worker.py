"""A process that is given an order and prints JSON lines."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT = 300.0  # seconds without a line, after which the process is killed


class JsonWorker:
    """Runs a script on the simulator, or on a Mac as it is; `status` says how it ended."""

    def __init__(self, script: Path, order: dict[str, Any], verbose: bool, **environment: str) -> None:
        self.status = 0
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            env={"MPS_SIMULATOR": "1", **os.environ, **environment},
        )
        assert self.process.stdin
        with self.process.stdin as given:
            json.dump(order, given)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it prints until it ends."""
        assert self.process.stdout
        timer = self._kill_later()
        for text in self.process.stdout:
            timer.cancel()
            timer = self._kill_later()
            yield json.loads(text)
        timer.cancel()
        self.status = self.process.wait()

    def _kill_later(self) -> threading.Timer:
        timer = threading.Timer(TIMEOUT, self.process.kill)
        timer.daemon = True
        timer.start()
        return timer
