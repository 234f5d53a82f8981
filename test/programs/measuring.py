"""What the demo and the program on graph caching share: the device, CPU time, the command line, the report."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from benchmark.devices import Device, find
from rich.console import Console


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
            click.option("--report", default=report, show_default=True, type=path, help="File for the numbers."),
            click.option(
                "--repeats",
                type=click.IntRange(min=1),
                help=f"Calls to time per row.  [default: {repeats}, small 5]",
                callback=lambda context, _option, given: given or (5 if context.params["small"] else repeats),
            ),
            click.option("--small", is_flag=True, is_eager=True, help="Use the small size for tests."),
        ):
            function = option(function)
        return click.command()(function)

    return make


def device_and_console() -> tuple[Device, Console]:
    """What runs the models, and where to print."""
    try:
        return find("mps"), Console(width=None if sys.stdout.isatty() else 160)
    except RuntimeError as problem:
        raise click.ClickException(str(problem)) from None


def finish(device: Device, console: Console, path: Path, content: dict[str, Any], wrong: str, right: str) -> None:
    """Keep the results, and exit with 1 and `wrong` if that says anything."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"simulated": device.simulated, **content}, indent=1) + "\n")
    if wrong:
        console.print(wrong, style="bold red")
        sys.exit(1)
    console.print(f"{right} Numbers kept in {path}.", style="green")
