"""What the demo and the program on graph caching share: the device, CPU time, the command line, the report."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console

try:
    import mps_simulator
except ImportError:  # on a Mac there is none, and none is needed
    mps_simulator = None  # type: ignore[assignment]


def on_simulator() -> bool:
    """Whether the MPS device is the simulated one."""
    return mps_simulator is not None and mps_simulator.is_installed()


def without_gpu_work() -> AbstractContextManager[Any]:
    """On the simulator, what is submitted in the block is encoded and not executed."""
    return mps_simulator.null_mode() if on_simulator() else nullcontext()


def counted_calls(run: Callable[[], object]) -> int | None:
    """How many calls of Metal and MPSGraph a run makes, where the simulator counts them."""
    if not on_simulator():
        return None
    mps_simulator.reset_counters()
    run()
    return sum(mps_simulator.counters().values())


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """What a call costs the CPU, with an idle device before each."""
    seconds = []
    for _ in range(repeats):
        torch.mps.synchronize()
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    torch.mps.synchronize()
    return statistics.median(seconds)


def options(report: str, repeats: int) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that takes `small`, `repeats` and `report`."""
    path = click.Path(dir_okay=False, path_type=Path)

    def make(function: Callable[..., None]) -> click.Command:
        for option in (
            click.option("--report", default=report, show_default=True, type=path, help="Where to keep the numbers."),
            click.option(
                "--repeats",
                type=click.IntRange(min=1),
                help=f"Calls to time per row.  [default: {repeats}, small 5]",
                callback=lambda context, _option, given: given or (5 if context.params["small"] else repeats),
            ),
            click.option("--small", is_flag=True, is_eager=True, help="The size for tests: less of everything."),
        ):
            function = option(function)
        return click.command()(function)

    return make


def console_with_device(command: str) -> Console:
    """Where to print; raises if there is no device, and says which command brings one."""
    if not torch.backends.mps.is_available():
        raise click.ClickException(
            f"There is no MPS device here. On Linux run `{command}`, which brings the simulated one."
        )
    return Console(width=None if sys.stdout.isatty() else 160)


def heading() -> str:
    """Says what the numbers are and what they are not."""
    if not on_simulator():
        return "On the Metal device. CPU time per call: until it returned, while the GPU may still have been at work."
    return (
        "SIMULATED: Metal and MPSGraph are stood in for by the simulator, on the CPU. Counts and values are those of "
        "PyTorch's real MPS backend. CPU time per call is the backend's plus the simulator's encoding, in null mode "
        "(encoded, not executed). Not measured: GPU time, Apple's own compiling and encoding, anything on a Mac."
    )


def finish(console: Console, path: Path, content: dict[str, Any], wrong: str, right: str) -> None:
    """Keep the results, and exit with 1 and `wrong` if that says anything."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"simulated": on_simulator(), **content}, indent=1) + "\n")
    if wrong:
        console.print(wrong, style="bold red")
        sys.exit(1)
    console.print(f"{right} Numbers kept in {path}.", style="green")
