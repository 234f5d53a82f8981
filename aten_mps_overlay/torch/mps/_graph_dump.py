r"""Debug dumps of a graph: as JSON, in the DOT language, and as a page for a browser."""

import html
import json
from typing import Any, Dict


_COLORS = {
    "graph_run": "#7aa6da",
    "kernel": "#e3a857",
    "copy": "#9bbf85",
    "fill": "#c9a0c9",
    "host_refresh": "#d98880",
    "kernel_object": "#8fbcbb",
    "status": "#b0b0b0",
}
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }
h1 { font-size: 1.3em; margin: 0 0 .3em }
#bar { position: sticky; top: 0; background: #fff; padding: .5em 0 }
#bar input[type=search] { font: inherit; padding: .3em .5em; width: 22em }
label { margin-left: 1em; white-space: nowrap }
label i, td i { display: inline-block; width: .8em; height: .8em; margin-right: .35em }
table { border-collapse: collapse; width: 100%; table-layout: fixed }
th { text-align: left; font-weight: 600; border-bottom: 1px solid #999; padding: .2em .6em }
td { border-bottom: 1px solid #eee; padding: .2em .6em; vertical-align: top; overflow-wrap: anywhere }
th:nth-child(1) { width: 3em }
th:nth-child(2) { width: 7em }
th:nth-child(n + 4) { width: 27% }
th:first-child, td:first-child { text-align: right }
td:first-child { color: #777 }
.line { color: #777; font-size: .9em }
button { font: .85em ui-monospace, monospace; margin: 0 .3em .1em 0; border: 1px solid #bbb; border-radius: 3px }
button { background: #f6f6f6; white-space: nowrap }
button.on { background: #ffe08a }
"""
_SCRIPT = """
const body = document.querySelector("tbody"), input = document.querySelector("input[type=search]");
const boxes = [...document.querySelectorAll("input[type=checkbox]")], shown = document.querySelector("#shown");
let buffer = null;
const separators = { inputs: ", ", results: ", ", written: ", " };
const size = n => n < 1024 ? n + " B" : n < 1048576 ? (n / 1024).toFixed(1) + " KiB" : (n / 1048576).toFixed(1) + " MiB";
const cell = (row, ...content) => { const td = document.createElement("td"); td.append(...content); row.append(td); };
function part(tag, text, style) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (style) element.className = style;
  return element;
}
const rows = graph.steps.map((step, index) => {
  const row = document.createElement("tr"), color = document.createElement("i");
  color.style.background = colors[step.kind] || "#ccc";
  cell(row, index);
  cell(row, color, step.kind.replace("_", " "));
  cell(row, part("div", step.op), part("div", step.line || "", "line"));
  cell(row, ...Object.entries(step).filter(([key]) => !["kind", "op", "line", "buffers"].includes(key)).map(
    ([key, value]) => part("div", key.replaceAll("_", " ") + ": " + value.join(separators[key] || " × "))));
  cell(row, ...["read", "write", "bind"].flatMap(access => {
    const uses = step.buffers.filter(use => use.access === access);
    if (!uses.length) return [];
    const line = part("div", access + "s ");
    line.append(...uses.map(use => {
      const known = graph.buffers[use.buffer], button = part("button", "b" + use.buffer + (use.offset ? " + " + use.offset : ""));
      button.title = size(known.bytes) + ", " + known.memory;
      button.dataset.buffer = use.buffer;
      return button;
    }));
    return [line];
  }));
  return { row, step, text: (step.op + " " + (step.line || "")).toLowerCase() };
});
function show() {
  const wanted = input.value.toLowerCase(), kinds = new Set(boxes.filter(b => b.checked).map(b => b.value));
  let count = 0;
  for (const { row, step, text } of rows) {
    const matches = kinds.has(step.kind) && text.includes(wanted) &&
      (buffer === null || step.buffers.some(use => use.buffer === buffer));
    row.hidden = !matches;
    count += matches;
  }
  shown.textContent = count + " of " + rows.length + " steps" + (buffer === null ? "" : " that use b" + buffer);
  for (const b of body.querySelectorAll("button")) b.classList.toggle("on", Number(b.dataset.buffer) === buffer);
}
body.addEventListener("click", event => {
  const clicked = event.target.dataset.buffer;
  if (clicked !== undefined) { buffer = buffer === Number(clicked) ? null : Number(clicked); show(); }
});
for (const control of [input, ...boxes]) control.addEventListener("input", show);
body.append(...rows.map(one => one.row));
show();
"""


def as_json(dump: Dict[str, Any]) -> str:
    r"""One buffer or step a line."""
    # an entry a line: short enough to read, and good to compare
    lines = [
        f' "{part}": [\n'
        + ",\n".join("  " + json.dumps(entry) for entry in dump[part])
        + "\n ]"
        for part in ("buffers", "steps")
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def as_dot(dump: Dict[str, Any]) -> str:
    r"""Steps as boxes, buffers as ellipses."""
    lines = ["digraph mps_graph {"]
    for i, buffer in enumerate(dump["buffers"]):
        label = f"buffer {i}\\n{buffer['bytes']} bytes, {buffer['memory']}"
        lines.append(f'  b{i} [shape=ellipse, label="{label}"];')
    for i, step in enumerate(dump["steps"]):
        facts = [f"{i}: {step['kind']} {step['op']}".rstrip()]
        facts += [
            f"{k}={json.dumps(v)}".replace('"', "")
            for k, v in step.items()
            if k not in ("kind", "op", "buffers")
        ]
        label = "\\n".join(facts)
        lines.append(f'  s{i} [shape=box, label="{label}"];')
        if i > 0:
            lines.append(f"  s{i - 1} -> s{i};")
        for use in step["buffers"]:
            ends = [f"b{use['buffer']}", f"s{i}"]
            if use["access"] == "write":
                ends.reverse()
            style = "dir=none, " if use["access"] == "bind" else ""
            lines.append(
                f'  {" -> ".join(ends)} [{style}style=dashed, label="{use["offset"]}"];'
            )
    return "\n".join([*lines, "}"]) + "\n"


def _script_literal(value: Any) -> str:
    # "</script>" in a string would end the element
    return json.dumps(value).replace("<", "\\u003c")


def as_html(dump: Dict[str, Any]) -> str:
    r"""One page that needs no server: steps in the order of a replay, to be filtered."""
    kinds: Dict[str, int] = {}
    for step in dump["steps"]:
        kinds[step["kind"]] = kinds.get(step["kind"], 0) + 1
    boxes = "".join(
        f'<label><input type="checkbox" value="{html.escape(kind)}" checked> '
        f'<i style="background: {_COLORS.get(kind, "#ccc")}"></i>'
        f"{html.escape(kind.replace('_', ' '))} ({count})</label>"
        for kind, count in sorted(kinds.items())
    )
    size = sum(buffer["bytes"] for buffer in dump["buffers"]) / 1024
    text = f"{size / 1024:.1f} MiB" if size >= 1024 else f"{size:.1f} KiB"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>MPS graph</title>\n<style>{_STYLE}</style>\n'
        f"<h1>MPS graph: {len(dump['steps'])} steps, {len(dump['buffers'])} buffers of {text}</h1>\n"
        "<p>The steps stand in the order of a replay. A kernel may read or write the buffers that it binds. "
        "A click on a buffer shows the steps that use it.</p>\n"
        f'<div id="bar"><input type="search" placeholder="operator or source line">{boxes}\n<div id="shown"></div></div>\n'
        "<table><thead><tr><th>#<th>kind<th>operator<th>sizes<th>buffers</tr></thead><tbody></tbody></table>\n"
        f"<script>const graph = {_script_literal(dump)}, colors = {_script_literal(_COLORS)};{_SCRIPT}</script>\n</html>\n"
    )
