"""How a time is taken: warm-ups, trials of all modes in turn, and the mean without the extremes."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WARM_UPS = 5
TRIALS = 10
TRIMMED = 0.1
# A trial repeats passes until the clock's own cost is lost in it.
_SHORTEST_TRIAL = 0.01
_MOST_PASSES = 100


@dataclass(frozen=True)
class Times:
    """Seconds of one pass: of the thread that submits it, and until the device was done."""

    cpu: float
    wall: float


@dataclass
class Timed:
    """Something to time: `start` is called before each trial, and `longest` passes may follow it.

    With `wait_until_ready`, which is called before each pass, passes do not follow each other at once.
    """

    run: Callable[[], object]
    start: Callable[[], None]
    longest: int
    wait_until_ready: Callable[[], None] | None = None


def trimmed_mean(values: Sequence[float], part: float = TRIMMED) -> float:
    """The mean of the values without the lowest and the highest `part` of them, rounded down to whole values."""
    if not values:
        raise ValueError("there is no mean of no values")
    cut = int(len(values) * part)
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def trial(timed: Timed, passes: int, synchronize: Callable[[], None], together: bool = True) -> Times:
    """Seconds of one of `passes` passes. With `together` they follow each other at once, else each waits for the device."""
    timed.start()
    cpu = wall = 0.0
    # the device is idle at the beginning, so that no pass pays for waiting until there is room for its commands
    for count in [passes] if together and not timed.wait_until_ready else [1] * passes:
        synchronize()
        if timed.wait_until_ready:
            timed.wait_until_ready()
        begin, begin_cpu = time.perf_counter(), time.thread_time()
        for _ in range(count):
            timed.run()
        cpu += time.thread_time() - begin_cpu
        synchronize()
        wall += time.perf_counter() - begin
    return Times(cpu / passes, wall / passes)


def _passes(seconds: float, most: int) -> int:
    return max(1, min(math.ceil(_SHORTEST_TRIAL / max(seconds, 1e-7)), most))


def measure(
    modes: Mapping[str, Timed],
    synchronize: Callable[[], None],
    trials: int = TRIALS,
    warm_ups: int = WARM_UPS,
    together: bool = True,
) -> dict[str, Times]:
    """Seconds of a pass of each mode; the modes take turns, so that what else the machine does hits all alike.

    With `together` the passes of a trial follow each other at once, else each waits until the device is done.
    """
    passes = {}
    for name, timed in modes.items():
        timed.start()
        for _ in range(min(warm_ups, timed.longest)):
            timed.run()
        synchronize()
        seconds = trial(timed, 1, synchronize, together).wall
        passes[name] = _passes(seconds, min(_MOST_PASSES, timed.longest))
    taken: dict[str, list[Times]] = {name: [] for name in modes}
    for _ in range(trials):
        for name, timed in modes.items():
            taken[name].append(trial(timed, passes[name], synchronize, together))
    return {
        name: Times(trimmed_mean([one.cpu for one in times]), trimmed_mean([one.wall for one in times]))
        for name, times in taken.items()
    }
