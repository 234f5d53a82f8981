"""Going through targets, dtypes and shapes; a crash or a hang costs one row, not the run."""

from collections.abc import Callable, Iterator
from typing import Any

from fallback_bench.cases import CASES
from fallback_bench.device import Device
from fallback_bench.measure import UNKNOWN
from fallback_bench.rows import Row, timed
from fallback_bench.workers import Died, Worker

# (operator, dtype, shape)
Cell = tuple[str, str, tuple[int, ...]]


def cells_of(operator: str, dtypes: tuple[str, ...] = (), quick: bool = False) -> list[Cell]:
    """The grid of an operator; none when there is no case for it."""
    case = CASES.get(operator)
    if case is None:
        return []
    names = [str(dtype).removeprefix("torch.") for dtype in case.dtypes]
    chosen = [name for name in names if not dtypes or name in dtypes]
    cells = [(operator, name, shape) for name in chosen for shape in case.shapes]
    return cells[:1] if quick else cells


class Bench:
    """Asks the two processes about each cell."""

    def __init__(self, free: Worker, bound: Worker, seconds: float) -> None:
        self._free = free
        self._bound = bound
        self._seconds = seconds

    @property
    def device(self) -> Device:
        return self._free.device

    def rows(self, cells: list[Cell], begin: Callable[[Cell], None] = lambda _cell: None) -> Iterator[Row]:
        """Measure each cell."""
        for cell in cells:
            begin(cell)
            yield self._row(cell)

    def _row(self, cell: Cell) -> Row:
        operator, dtype, shape = cell
        columns: dict[str, Any] = {
            "operator": operator,
            "dtype": dtype,
            "shape": "×".join(map(str, shape)),
            "where": self.device.name,
            "torch": self.device.torch,
        }
        job = {"operator": operator, "dtype": dtype, "shape": shape, "seconds": self._seconds}
        try:
            checked = self._bound.ask({**job, "task": "check"})
            columns |= {
                "verdict": checked["verdict"],
                "fell_back": " ".join(checked.get("missing", [])),
                "problem": checked.get("problem", ""),
            }
            measured = self._free.ask({**job, "task": "measure"})
        except Died as problem:
            return Row(**(columns | {"problem": str(problem)}))
        if "problem" in measured:
            return Row(**(columns | {"problem": measured["problem"]}))
        columns |= timed(measured["cpu"], measured["mps"])
        columns |= {"repeats": measured["repeats"], "spread": measured["spread"]}
        # What ran on the CPU in the end, which may be more than the first operator that was missing.
        columns["fell_back"] = " ".join(sorted(set(measured["fallbacks"]))) or columns["fell_back"]
        return Row(**(columns | _capture(measured["capture"])))


def _capture(error: str | None) -> dict[str, str]:
    if error == UNKNOWN:
        return {"stops_capture": "unknown", "capture_error": error}
    return {"stops_capture": "no" if error is None else "yes", "capture_error": error or ""}
