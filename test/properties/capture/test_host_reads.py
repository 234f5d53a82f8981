"""docs/internals.md lists every place where the backend reads device data, waits for the GPU or names the CPU (promises
4 and 5)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BACKEND = ROOT / "build" / "pytorch" / "aten" / "src" / "ATen"
OURS = ROOT / "aten_mps_overlay" / "aten" / "src" / "ATen"
MENTION = re.compile(r"\.item[<(]|\.cpu\(\)|kCPU|\"cpu\"|_local_scalar_dense|COMMIT_AND_WAIT")
# They say what the words mean, or profile.
WITHOUT_READS = {
    "mps/MPSGuardImpl.mm",
    "mps/MPSProfiler.mm",
    "mps/MPSStream.h",
    "mps/MPSStream.mm",
    "native/mps/OperationUtils.h",
    "native/mps/OperationUtils.mm",
}


def counted() -> dict[str, int]:
    counts = {}
    for folder in ("mps", "native/mps"):
        for path in sorted((BACKEND / folder).rglob("*")):
            name = path.relative_to(BACKEND).as_posix()
            if path.suffix not in {".mm", ".h", ".cpp"} or name in WITHOUT_READS or (OURS / name).exists():
                continue
            lines = [line.split("//")[0] for line in path.read_text().splitlines()]
            count = sum(bool(MENTION.search(line)) for line in lines)
            if count:
                counts[name] = count
    return counts


def listed() -> dict[tuple[str, ...], int]:
    rows = re.findall(r"^\| (`[^|]+`) \| (\d+) \|", (ROOT / "docs" / "internals.md").read_text(), re.M)
    result = {}
    for files, count in rows:
        names = re.findall(r"`([^`]+)`", files)
        folder = names[0].rpartition("/")[0]
        result[tuple(n if "/" in n else f"{folder}/{n}" for n in names)] = int(count)
    return result


def test_every_place_is_listed() -> None:
    found = counted()
    claimed = listed()
    assert len(claimed) > 10
    for names, count in claimed.items():
        assert sum(found.get(name, 0) for name in names) == count, names
    assert set(found) <= {name for names in claimed for name in names}
