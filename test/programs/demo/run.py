"""Runs the demo: see README.md next to this file."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402
from benchmark.devices import Device  # noqa: E402
from benchmark.report import heading  # noqa: E402
from measuring import device_and_console, finish, median_seconds, options  # noqa: E402
from models.classifiers import Mlp, ResidualNet, VisionTransformer  # noqa: E402
from models.digits import batches, images_and_labels, train  # noqa: E402
from models.language_models import Gpt2  # noqa: E402
from rich.table import Table  # noqa: E402
from torch import nn, Tensor  # noqa: E402

mps: Any = torch.mps


@dataclass
class Case:
    """One model: `step` is captured; `rounds` prepares the input of one pass after the other, in place, and yields how
    many rows of the result count."""

    name: str
    data: str
    step: Callable[[], Tensor]
    prepare: Callable[[], None]
    rounds: Callable[[], Iterator[int]]
    accuracy: float | None = None


def classifier_case(name: str, model: nn.Module, epochs: int, small: bool) -> Case:
    """A classifier trained on the CPU; captured on the first batch, replayed on the others."""
    images, labels = images_and_labels()
    half = len(images) // 2
    train(model, images[:half], labels[:half], epochs)
    with torch.no_grad():
        right = model(images[half:]).argmax(-1) == labels[half:]
    device_model = model.to("mps")
    size = 256 if small else 64
    inputs = batches(images, size)
    x = torch.empty(size, 1, 8, 8, device="mps")

    def prepare() -> None:
        x.copy_(inputs[0][0])

    def rounds() -> Iterator[int]:
        for batch, count in inputs[1:]:
            x.copy_(batch)
            yield count

    return Case(
        name,
        f"{len(images):,} digits, batches of {size}",
        lambda: device_model(x),
        prepare,
        rounds,
        right.float().mean().item(),
    )


def decoder_case(small: bool) -> Case:
    """A GPT-2-style decode step with random weights: captured on token 0, replayed on sequences that begin with others."""
    depth, tokens, starts = (4, 6, 2) if small else (64, 24, 3)
    model = Gpt2(depth=depth, width=128, length=64, words=256).to("mps").eval()

    def rounds() -> Iterator[int]:
        for start in range(1, starts + 1):
            model.start(start * 37 % 256)
            for _ in range(tokens):
                yield 1

    return Case(
        f"GPT-2-style decoder, {depth} layers",
        f"{starts} sequences of {tokens} tokens",
        model,
        lambda: model.start(0),
        rounds,
    )


def all_cases(small: bool) -> Iterator[Case]:
    torch.manual_seed(0)
    yield classifier_case("MLP", Mlp(), 4, small)
    yield classifier_case("residual conv net", ResidualNet(), 8, small)
    yield classifier_case("vision transformer", VisionTransformer(), 30, small)
    yield decoder_case(small)


# What one pass costs the CPU: seconds (median), and Metal calls where the simulator counts them.
Cost = tuple[float, int | None]


@dataclass
class Result:
    """One row of the demo's table."""

    name: str
    data: str
    accuracy: float | None
    steps: dict[str, int]
    passes: int
    largest_difference: float
    values_finite: bool
    predictions: int
    predictions_differing: int
    distinct_outputs: int
    eager: Cost
    replay: Cost

    @property
    def equal(self) -> bool:
        """Whether every replay gave exactly what eager gave, on results that mean something."""
        same = self.largest_difference == 0 and self.predictions_differing == 0
        return same and self.values_finite and self.distinct_outputs > 1


def _cost(run: Callable[[], object], repeats: int, device: Device) -> Cost:
    calls = device.calls(run)
    return median_seconds(run, repeats), calls["total"] if calls else None


@torch.no_grad()
def measure(case: Case, repeats: int, device: Device) -> Result:
    """Capture on one input; replay on all others and compare with eager; then measure both."""
    case.prepare()
    graph = mps.MPSGraph()
    with mps.graph(graph):
        output = case.step()

    # eager first, then the replays from the same start: state that a pass leaves behind is part of the comparison
    expected = [case.step()[:count].cpu() for count in case.rounds()]
    replayed = []
    for count in case.rounds():
        graph.replay()
        replayed.append(output[:count].cpu())

    eager_all, replay_all = torch.cat(expected), torch.cat(replayed)
    steps = graph.stats()
    with device.measuring():
        case.prepare()
        eager = _cost(case.step, repeats, device)
        case.prepare()
        replay = _cost(graph.replay, repeats, device)
    return Result(
        case.name,
        case.data,
        case.accuracy,
        {kind: steps[kind] for kind in ("kernels", "graph_runs", "copies", "fills")},
        len(expected),
        (eager_all - replay_all).abs().max().item(),
        bool(eager_all.isfinite().all()),
        len(eager_all),
        int((eager_all.argmax(-1) != replay_all.argmax(-1)).sum()),
        len(eager_all.unique(dim=0)),  # type: ignore[no-untyped-call]
        eager,
        replay,
    )


def table(results: list[Result], simulated: bool) -> Table:
    where = "null mode" if simulated else "device"
    result = Table(
        *("model", "data", "steps of the graph", "passes replayed", "largest difference\nreplay − eager"),
        *(
            "predictions\nthat differ",
            f"CPU time per pass ({where})\neager → replay",
            "API calls per pass\neager → replay",
        ),
        show_lines=True,
    )
    for row in results:
        right = "" if row.accuracy is None else f"\n{row.accuracy:.0%} right on the unseen half"
        (before, calls), (after, fewer) = row.eager, row.replay
        result.add_row(
            row.name,
            row.data + right,
            "\n".join(f"{count} {kind.replace('_', ' ')}" for kind, count in row.steps.items() if count),
            f"{row.passes:,}",
            f"{row.largest_difference:g}",
            f"{row.predictions_differing} of {row.predictions:,}",
            f"{before * 1e3:.2f} → {after * 1e3:.2f} ms\n({before / max(after, 1e-9):.0f}× less)",
            "–" if calls is None else f"{calls:,} → {fewer:,}",
            style=None if row.equal else "bold red",
        )
    return result


@options("build/reports/demo.json", repeats=30)
def main(small: bool, repeats: int, report: Path) -> None:
    """Capture models on one input, replay them on others, and compare with eager."""
    device, console = device_and_console()
    results = []
    for case in all_cases(small):
        console.print(f"[dim]{case.name}: capture, replay, compare …[/dim]")
        results.append(measure(case, repeats, device))
    console.print(heading(device), style="bold")
    console.print(table(results, device.simulated))
    wrong = [row.name for row in results if not row.equal]
    finish(
        device,
        console,
        report,
        {"small": small, "rows": [asdict(row) | {"equal": row.equal} for row in results]},
        f"Replay and eager differ: {', '.join(wrong)}." if wrong else "",
        "Every replay equals eager.",
    )


if __name__ == "__main__":
    main()
