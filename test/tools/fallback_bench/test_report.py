"""What the report and the CSV files say, from rows made by hand."""

import csv
from dataclasses import replace
from pathlib import Path

from fallback_bench.device import Device
from fallback_bench.report import markdown
from fallback_bench.rows import Row, summarize, Summary, timed, write_csv
from fallback_bench.targets import Request, Target, Targets

LINK = "https://github.com/pytorch/pytorch/issues/{}"
COMMENT = "https://github.com/pytorch/pytorch/issues/77764#issuecomment-1"
SIMULATOR = Device(True, "simulated macOS 15.2 on a PC", "2.6.0")
MAC = Device(False, "Apple M9, macOS 15.2", "2.6.0a0")
FALLS = "the operator 'aten::{}' falls back to the CPU"


def row(operator: str, cpu: float, mps: float, **columns: str) -> Row:
    plain = Row(f"aten::{operator}", "float32", "16×16", "falls back", f"aten::{operator}.out")
    error = FALLS.format(operator)
    return replace(plain, **timed(cpu, mps), stops_capture="yes", capture_error=error, **columns)  # type: ignore[arg-type]


def target(operator: str, votes: int) -> Target:
    return Target(f"aten::{operator}", curated=(LINK.format(votes),), found=(Request(COMMENT, votes),))


TARGETS = [target("rare", 1), target("wanted", 20), target("native", 50), target("broken", 3), target("reads", 2)]
ROWS = [
    row("rare", 1e-5, 1e-3),
    row("wanted", 1e-3, 2e-3),
    row("wanted", 1e-3, 32e-3, dtype="float16"),
    replace(row("native", 1e-3, 1e-3), verdict="native", fell_back="", stops_capture="no", capture_error=""),
    Row("aten::broken", "float16", "8", "falls back", "aten::broken", problem="on the CPU: not for 'Half' | at all"),
    replace(row("reads", 1e-3, 1e-3), verdict="native", fell_back="", capture_error="the host read device data"),
]


def summaries() -> list[Summary]:
    return summarize(TARGETS, ROWS)


def test_report() -> None:
    targets = Targets((*TARGETS, target("unheard", 4)), {"date": "2026-01-02", "issues": "77764, 141287"})
    text = markdown(SIMULATOR, targets, summaries(), [target("unheard", 4)])
    lines = text.splitlines()
    ranking = [line for line in lines if line.startswith(("| 1 |", "| 2 |", "| 3 |"))]
    assert len(ranking) == 2
    assert ranking[0].startswith(f"| 1 | `aten::wanted` | 20 ([#20]({LINK.format(20)}), [#77764 comment]({COMMENT}))")
    assert "`aten::wanted.out` | 8× (2 to 32) | 16 ms | yes |" in ranking[0]
    assert "`aten::rare`" in ranking[1]
    stopping = lines[lines.index("## What stops a capture") :]
    asked = [line.split("|")[1].strip() for line in stopping if line.startswith("| `")]
    assert asked[:3] == ["`aten::wanted`", "`aten::reads`", "`aten::rare`"]
    assert "| `aten::reads` | 2 | the host read device data |" in stopping
    assert "Asked for, and native here now: `aten::native`, `aten::reads`." in lines
    assert "| `aten::broken` | float16 8 | on the CPU: not for 'Half' \\| at all |" in lines
    assert "`aten::unheard` (4)." in text
    assert "as of 2026-01-02" in text


def test_every_table_says_where_its_numbers_are_from() -> None:
    for device, words in ((SIMULATOR, "Simulated macOS 15.2 on a PC"), (MAC, "Apple M9, macOS 15.2")):
        lines = markdown(device, Targets(tuple(TARGETS)), summaries(), []).splitlines()
        tables = [number for number, line in enumerate(lines) if line.startswith("| ---")]
        assert len(tables) == 3
        for number in tables:
            assert lines[number - 3] == f"*{words}, torch {device.torch}:*"
    assert "SIMULATED" in markdown(SIMULATOR, Targets(()), [], [])
    assert "imulated" not in markdown(MAC, Targets(()), [], [])


def test_noise_is_counted() -> None:
    rows = [replace(ROWS[0], spread=0.1), replace(ROWS[1], spread=0.7)]
    text = markdown(MAC, Targets(tuple(TARGETS)), summarize(TARGETS, rows), [])
    assert "1 of 2 rows are noisy" in text
    assert "noisy" not in markdown(MAC, Targets(tuple(TARGETS)), summarize(TARGETS, rows[:1]), [])


def test_a_torch_without_captures() -> None:
    rows = [replace(ROWS[0], stops_capture="unknown", capture_error="this torch has none")]
    text = markdown(MAC, Targets(tuple(TARGETS)), summarize(TARGETS, rows), [])
    assert "This torch has no `torch.mps.graph_capture`." in text
    assert "| unknown |" in text


def test_csv(tmp_path: Path) -> None:
    rows = [replace(one, where=SIMULATOR.name, torch="2.6.0") for one in ROWS if one.operator == "aten::wanted"]
    path = write_csv(tmp_path, rows)
    assert path.name == "wanted.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["cpu_ms"], first["mps_ms"], first["penalty"], first["overhead_ms"]) == ("1", "2", "2", "1")
    assert (second["dtype"], second["penalty"]) == ("float16", "32")
    assert {first["where"], second["where"]} == {"simulated macOS 15.2 on a PC"}
    unmeasured = write_csv(tmp_path, [row for row in ROWS if row.problem])
    assert (
        unmeasured.read_text("utf-8")
        .splitlines()[1]
        .startswith("aten::broken,float16,8,falls back,aten::broken,,,,,,,")
    )
