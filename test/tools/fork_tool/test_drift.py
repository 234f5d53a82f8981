"""`drift`: what would become of each patch, and that nothing is changed."""

import json
from pathlib import Path
from typing import Any

from moving import everything, put, upstream
from workshop import Workshop


def rows(said: str) -> dict[str, list[str]]:
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if line.startswith("│")]
    return {row[0]: row[1:] for row in cells if len(row) == 5}


def report(shop: Workshop) -> dict[str, Any]:
    found = json.loads((shop.layout.reports / "drift.json").read_text())
    return {patch["name"]: patch for patch in found["patches"]}


def unchanged(before: dict[str, object], shop: Workshop) -> bool:
    after = everything(shop) | {"build": before["build"]}
    return after == before


def test_every_state(shop: Workshop) -> None:
    def rename(root: Path) -> None:
        (root / "torch/mps.py").rename(root / "torch/metal.py")

    upstream(
        shop,
        put("aten/Stream.mm", "stream 1\n", "a\nb\nc\nstream 1\n"),
        put("aten/Graph.mm", "graph 10\n", "cached 10\n"),
        rename,
    )
    before = everything(shop)
    said = shop.good("drift", "--against", "v0.2")
    assert rows(said) == {
        "recorder": ["moves", "1", "1, by +3", ""],
        "cache": ["partly upstream's", "2", "", "1"],
        "pool": ["moves", "2", "2, by up to +3", ""],
        "python": ["moves", "1", "", ""],
    }
    assert "cache: aten/Graph.mm, hunk 1 dropped: upstream has it" in said
    assert "python: torch/mps.py is torch/metal.py there" in said
    assert "All 4 patches apply to v0.2" in said
    assert unchanged(before, shop)
    assert report(shop)["recorder"]["carried"]["moved"] == [{"path": "aten/Stream.mm", "hunk": 1, "lines": 3}]
    # What it says is what `rebase` then does.
    assert shop.good("rebase", "--onto", "v0.2").count(" moved") == 4


def test_whole_patch_is_upstreams(shop: Workshop) -> None:
    upstream(
        shop,
        put("aten/Graph.mm", "graph 10\n", "cached 10\n"),
        put("aten/Graph.mm", "graph 20\n", "graph 20\ncached 20\n"),
    )
    said = shop.good("drift", "--against", "v0.2")
    assert rows(said)["cache"][0] == "upstream has it"
    assert rows(said)["python"][0] == "fits as it is"


def test_one_conflict_is_one(shop: Workshop) -> None:
    """Patches that depend on the conflict are not checked; the others are."""
    upstream(shop, put("aten/Stream.mm", "stream 4\nstream 5\n", "stream four\n"))
    before = everything(shop)
    result = shop.run("drift", "--against", "v0.2")
    error = str(result.exception)
    assert error.startswith("recorder does not fit v0.2 (")
    assert "; 1 behind them not checked: `scripts/mpsfork rebase --onto v0.2`" in error
    states = {name: row[0] for name, row in rows(result.output).items()}
    assert states == {
        "recorder": "conflict",
        "cache": "fits as it is",
        "pool": "not checked",
        "python": "fits as it is",
    }
    said = " ".join(result.output.split())
    assert "pool was not checked, because it depends on the conflict of recorder" in said
    assert "recorder: aten/Stream.mm, line 4, hunk 1 (@@ -4,2 +4,5 @@)" in said
    assert report(shop)["pool"]["follows"] == "recorder"
    assert report(shop)["recorder"]["clashes"][0]["upstream"] == ["stream four"]
    assert unchanged(before, shop)


def test_own_base(shop: Workshop) -> None:
    shop.good("drift", "--against", shop.base)
    assert {patch["state"] for patch in report(shop).values()} == {"fits as it is"}
    assert "is no name of a base" in shop.error("drift", "--against", "")
