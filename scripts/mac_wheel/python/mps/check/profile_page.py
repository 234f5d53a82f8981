"""A page with a timeline of one step: operators that the CPU submits, and how long the GPU takes."""

import html
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .machine import is_simulated
from .profile import Profile

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }
h1 { font-size: 1.2em } h2 { font-size: 1em; margin: 1.2em 0 .2em }
.lane { position: relative; height: 28px; background: #f2f2f2; margin: 2px 0 }
.lane span { position: absolute; top: 0; height: 100%; overflow: hidden; white-space: nowrap; font-size: 11px;
  line-height: 28px; background: #7aa6da }
.lane span:nth-child(odd) { background: #a3c2e6 }
.lane.gpu span { background: #e3a857 }
.note { color: #666 }
"""


@dataclass
class _Pass:
    """Seconds since its begin: operators as (name, begin, end), and when the device was done."""

    name: str
    operators: list[tuple[str, float, float]]
    submitted: float
    done: float


def _watch(name: str, run: Callable[[], Any]) -> _Pass:
    torch.mps.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        began = time.perf_counter()
        run()
        submitted = time.perf_counter() - began
        torch.mps.synchronize()
        done = time.perf_counter() - began
    events = [event for event in profiler.events() if event.cpu_parent is None]
    first = min((event.time_range.start for event in events), default=0)
    spans = [(e.name, (e.time_range.start - first) / 1e6, (e.time_range.end - first) / 1e6) for e in events]
    return _Pass(name, [span for span in spans if span[1] <= submitted], submitted, done)


def _lanes(one: _Pass, longest: float) -> str:
    def span(name: str, begin: float, end: float) -> str:
        width = max(end - begin, longest / 2000)
        place = f"left: {100 * min(begin, longest - width) / longest:.3f}%; width: {100 * width / longest:.3f}%"
        title = html.escape(f"{name}: {(end - begin) * 1e3:.3f} ms", quote=True)
        return f'<span style="{place}" title="{title}">{html.escape(name)}</span>'

    operators = "".join(span(*operator) for operator in one.operators) or span(one.name, 0, one.submitted)
    text = f"<h2>{html.escape(one.name)}: {one.submitted * 1e3:.3f} ms on the CPU"
    if is_simulated():
        return text + f'</h2>\n<div class="lane">{operators}</div>\n'
    text += f", {one.done * 1e3:.3f} ms until the GPU is done</h2>\n"
    return (
        text
        + f'<div class="lane">{operators}</div>\n<div class="lane gpu">{span("until the GPU is done", 0, one.done)}</div>\n'
    )


def as_html(profile: Profile, step: Callable[[], Any]) -> str:
    """Run the step once more in each way and return one page that needs no server.

    The profiler that notes the operators makes these passes slower than those of the verdict.
    """
    mps: Any = torch.mps
    passes = [_watch("eager", step)]
    if not profile.problem:
        graph = mps.MPSGraph()

        def capture() -> None:
            with mps.graph(graph):
                step()

        passes.append(_watch("capture", capture))
        graph.replay()  # the first takes longer
        passes.append(_watch("replay", graph.replay))
    longest = max(max(one.submitted, 0 if is_simulated() else one.done) for one in passes)
    note = "SIMULATED: no GPU was used, and its time is left out. " if is_simulated() else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>One step</title>\n<style>{_STYLE}</style>\n'
        f"<h1>{html.escape(profile.verdict)}</h1>\n"
        f'<p class="note">{note}A box is an operator that the CPU submits; its name and time show under the pointer. '
        "The profiler makes these passes slower than those that the first line measures.</p>\n"
        + "".join(_lanes(one, longest) for one in passes)
        + (f"<p>A capture raises: {html.escape(profile.problem)}</p>\n" if profile.problem else "")
        + "</html>\n"
    )
