"""The *bare loop*: the framework calls of one replay, recorded once and made again, which no replay can be faster than."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

import mps_simulator
from benchmark.case import NotRun, Replay

SOURCE = Path(__file__).with_name("bare_loop.mm")
BUILD = SOURCE.parents[3] / "build" / "benchmark"
# What the host asks of its own buffers, and what handlers ask afterwards on their own threads.
_BESIDE = ("-[MTLBuffer contents]", "-[MTLCommandBuffer status]")


@cache
def _recorder() -> Any:
    from torch.utils import cpp_extension

    BUILD.mkdir(parents=True, exist_ok=True)
    return cpp_extension.load("bare_loop", [str(SOURCE)], extra_cflags=["-O2"], build_directory=str(BUILD))


class BareLoop:
    """The calls of one replay."""

    def __init__(self, replay: Replay) -> None:
        """Records one replay."""
        replay.run()  # so that nothing is recorded that only the first one does
        _recorder().start()
        try:
            with mps_simulator.autorelease_pool():
                replay.run()
        finally:
            self._recording = _recorder().stop()
        missing = self._missing(replay)
        if missing:
            raise NotRun(f"the recorder does not know all calls of the replay: {', '.join(missing)}")

    def run(self) -> None:
        self._recording.run()

    def steps_before_commit(self) -> int:
        """How many steps the replay encodes before its first commit."""
        count: int = self._recording.steps_before_commit()
        return count

    @staticmethod
    def wait() -> None:
        """Wait until all that was made is done."""
        _recorder().wait()

    def _missing(self, replay: Replay) -> dict[str, int]:
        """Calls of a replay that the bare loop makes more (negative) or less often, by selector."""
        counts = []
        for run, wait in ((replay.run, torch.mps.synchronize), (self.run, self.wait)):
            run()
            mps_simulator.reset_counters()
            run()
            counts.append(mps_simulator.counters())
            wait()
        names = sorted(set(counts[0]) | set(counts[1]))
        differences = {name: counts[0].get(name, 0) - counts[1].get(name, 0) for name in names}
        return {name: count for name, count in differences.items() if count and name not in _BESIDE}
