"""The pages of `debug_dump()` and of `torch.mps.check --profile --html`, opened in a browser."""

import dataclasses
import html
import importlib
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fork_tool.machine.machine import BROWSER
from fork_tool.paths import own_layout

CHECK = own_layout().root / "scripts" / "mac_wheel" / "python" / "mps"
CHROMIUM = BROWSER.found()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium and no Chrome")
# Runs after the page's own script and replaces the page with its findings.
LOOK = """<script>
const all = (css, root = document) => [...root.querySelectorAll(css)];
document.documentElement.textContent = JSON.stringify((() => {%s})());
</script>"""
GRAPH = """
const visible = () => all("tbody tr").filter(row => row.offsetHeight > 0);
const operators = () => visible().map(row => row.cells[2].firstChild.innerText), search = all("input[type=search]")[0];
const type = text => {
  search.focus();
  search.select();
  document.execCommand("insertText", false, text);  // as the keyboard does
  return operators();
};
const found = { operators: operators(), seconds: performance.now() / 1000, title: all("h1")[0].innerText };
found.wide = document.documentElement.scrollWidth > innerWidth;
found.rows = visible().slice(0, 4).map(row => [...row.cells].map(cell => cell.innerText));
found.colors = visible().slice(0, 4).map(row => getComputedStyle(all("i", row)[0]).backgroundColor);
found.by_operator = type("Aten::MM");
found.by_line = type("(write)");
all("label").find(label => label.innerText.includes("fill")).click();
found.by_kind = operators();
const button = all("button", visible()[0])[0], place = button.getBoundingClientRect();
document.elementFromPoint(place.x + 3, place.y + 3)?.click();
return { ...found, memory: button.title, by_buffer: operators() };
"""
TIMELINE = """
const lanes = all(".lane").map(lane => {
  const boxes = all("span", lane), places = boxes.map(box => box.getBoundingClientRect());
  const seen = places.every(box => box.width > 0 && box.height > 9 && box.right < lane.getBoundingClientRect().right + 1);
  return { seen, names: boxes.map(box => box.innerText), begins: places.map(place => place.x), title: boxes[0].title };
});
return { lanes, titles: all("h2").map(title => title.innerText), note: all(".note")[0].innerText };
"""
PROGRAM = """
import torch
x = torch.ones(8, 8, device="mps")
def write(y):
    return y.copy_(x[0].expand_as(y)).clone().zero_()
def step(repeats=3):
    for _ in range(repeats):
        y = write(torch.mm(x, x))
    return y
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program whose path is too long for one line of a page."""
    path = tmp_path / ("long_" * 30) / "mine.py"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    return path


def look(path: Path, fault: tuple[str, str], script: str) -> Any:
    """What the script returns in the page with a fault, whose console must stay empty."""
    page = path.read_text(encoding="utf-8")
    page.index(fault[0])
    path.write_text(page.replace(*fault) + LOOK % script, encoding="utf-8")
    words = ("--headless", "--no-sandbox", "--enable-logging=stderr", "--window-size=800,900", "--dump-dom")
    run = subprocess.run([str(CHROMIUM), *words, path.as_uri()], capture_output=True, text=True, timeout=60, check=True)
    assert [line for line in run.stderr.splitlines() if "CONSOLE" in line] == []
    [found] = re.findall(r"<html[^>]*>(.*)</html>", run.stdout, re.DOTALL)
    return json.loads(html.unescape(found))


def check_graph(program: Path, fault: tuple[str, str] = ("", ""), repeats: int = 3) -> None:
    """Each repeat is a graph run, a kernel, a copy and a fill."""
    path, made = program.with_name("graph.html"), torch.mps.MPSGraph(keep_graph=True)
    step = runpy.run_path(str(program))["step"]
    with torch.mps.graph(made):
        step(repeats)
    made.debug_dump(path)
    found = look(path, fault, GRAPH)
    assert found["operators"] == ["aten::mm", "aten::copy_", "aten::copy_", "aten::zero_"] * repeats
    assert found["title"] == f"MPS graph: {4 * repeats} steps, 4 buffers of 1.0 KiB"
    assert not found["wide"] and found["seconds"] < 20  # 2 s to 7 s on two busy cores
    run, kernel, *_ = found["rows"]
    assert [row[1] for row in found["rows"]] == ["graph run", "kernel", "copy", "fill"]
    assert len(set(found["colors"])) == 4
    assert run[2] == f"aten::mm\n{program}:8 (step)" and kernel[2] == f"aten::copy_\n{program}:5 (write)"
    assert run[3] == "inputs: float32[8, 8], float32[8, 8]\nresults: float32[8, 8]"
    assert (
        kernel[3].startswith("threads: 64 × 1 × 1\n")
        and run[4] == ""  # Metal does not tell the buffers of an MPSGraphTensorData
        and kernel[4] == "binds b0b1"
        and found["memory"] == "256 B, kept"
    )
    assert found["by_operator"] == ["aten::mm"] * repeats
    assert found["by_line"] == ["aten::copy_", "aten::copy_", "aten::zero_"] * repeats
    assert found["by_kind"] == ["aten::copy_"] * 2 * repeats
    assert found["by_buffer"] == ["aten::copy_"] * repeats


def held_up(watch: Callable[..., Any], *words: Any) -> Any:
    """A pass as a busy machine can show it: its last operator takes no time beside the whole, and ends it."""
    watched = watch(*words)
    if watched.operators:
        *others, (name, _, end) = watched.operators
        watched = dataclasses.replace(watched, operators=[*others, (name, end, end)], submitted=end)
    return watched


def check_timeline(program: Path, fault: tuple[str, str] = ("", "")) -> None:
    path = program.with_name("step.html")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit, match="^0$"):
        patch.setattr(torch.mps, "__path__", [*torch.mps.__path__, str(CHECK)])
        page = importlib.import_module("torch.mps.check.profile_page")
        patch.setattr(page, "_watch", partial(held_up, page._watch))
        patch.setattr(sys, "argv", ["check", "--profile", f"{program}:step", "--passes", "2", "--html", str(path)])
        runpy.run_module("torch.mps.check", run_name="__main__", alter_sys=True)
    found = look(path, fault, TIMELINE)
    assert [title.partition(":")[0] for title in found["titles"]] == ["eager", "capture", "replay"]
    assert found["note"].startswith("SIMULATED")
    calls = ["aten::mm", "aten::select", "aten::expand_as", "aten::copy_", "aten::clone", "aten::zero_"] * 3
    assert [lane["names"] for lane in found["lanes"]] == [calls, calls, ["replay"]]
    for lane in found["lanes"]:
        assert lane["seen"] and lane["begins"] == sorted(lane["begins"])
        assert re.fullmatch(r"(aten::mm|replay): \d+\.\d{3} ms", lane["title"])


@pytest.mark.parametrize("check", [check_timeline, check_graph, partial(check_graph, repeats=1250)])
def test_pages(program: Path, check: Callable[..., None]) -> None:
    check(program)


@pytest.mark.parametrize(
    ("check", "text", "instead"),
    [
        (check_graph, "let buffer = null;", "let buffer = nil;"),
        (check_graph, "text.includes(wanted)", "true"),
        (check_graph, "kinds.has(step.kind)", "true"),
        (check_graph, "use.buffer === buffer", "true"),
        (check_graph, "use.access === access", "true"),
        (check_graph, "colors[step.kind]", "colors.kernel"),
        (check_graph, "overflow-wrap: anywhere", ""),
        (check_timeline, "SIMULATED", ""),
        (check_timeline, ">aten::mm<", "><"),
        (check_timeline, "</p>", "</p><script>no()</script>"),
    ],
)
def test_faults_are_noticed(program: Path, check: Callable[..., None], text: str, instead: str) -> None:
    with pytest.raises(AssertionError):
        check(program, (text, instead))
