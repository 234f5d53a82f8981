"""The sweep's and the capture mode's comparisons: each fault that they are there for is planted, and seen."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.testing._internal.opinfo.core import SampleInput

for folder in ("programs/sweep", "upstream/captured"):
    sys.path.append(str(Path(__file__).resolve().parents[2] / folder))
import cases  # noqa: E402
from mps_capture_mode import CaptureMode  # noqa: E402
from mps_capture_rounding import as_near_as_eager_to_itself  # noqa: E402
from sweep_exceptions import sort_exception  # noqa: E402
from sweep_inputs import alias, copies, other_contents, storage_of, write_all  # noqa: E402
from sweep_report import GENERATOR_DIFFERS, INPUTS_DIFFER, OUTCOMES, RESULTS_DIFFER, verdict_without_replay  # noqa: E402
from sweep_state import change_metadata, CHANGES, with_room  # noqa: E402

DEVICE = "mps"
CHANGED = {change.partition(" (")[0] for change in CHANGES}
Function = Callable[..., Any]


def run(function: Function, first: torch.Tensor, second: torch.Tensor | None = None, **options: Any) -> tuple[str, str]:
    other = None if second is None else SampleInput(second)
    return cases.run_case(cases.Case(function, SampleInput(first), other, gradients=False, **options))


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=DEVICE)


def shift(x: torch.Tensor) -> None:
    x.add_(1)


def draw_and_view(x: torch.Tensor) -> torch.Tensor:
    torch.rand_like(x)
    return x.view(-1)


class TestSweep:
    @pytest.mark.parametrize(
        ("first", "second", "way"),
        [
            ((1, 2, 3), (4, 5, 6), "second sample"),
            ((1, 2, 3), (1, 2, 3), "permuted"),
            ((1, 2, 3), (1, 2), "permuted"),
            ((2, 2), (2, 2), "scaled"),
        ],
    )
    def test_inputs_change(self, first: tuple[float, ...], second: tuple[float, ...], way: str) -> None:
        assert run(torch.exp, numbers(*first), numbers(*second)) == ("equal", way)

    def test_inputs_that_cannot_change(self) -> None:
        zeros = torch.zeros(3, dtype=torch.int32, device=DEVICE)
        assert run(torch.neg, zeros, zeros) == ("unchanged_inputs", "unchanged")
        assert run(torch.neg, zeros, zeros, replay=False) == ("wrong", RESULTS_DIFFER)

    @pytest.mark.parametrize(
        ("function", "reason"),
        [
            (torch.exp, RESULTS_DIFFER),
            (lambda x: x.clone().mul_(2), RESULTS_DIFFER),
            (torch.rand_like, GENERATOR_DIFFERS),
            (draw_and_view, GENERATOR_DIFFERS),
            (shift, INPUTS_DIFFER),
        ],
    )
    def test_replay_left_out(self, function: Function, reason: str) -> None:
        assert run(function, numbers(1, 2, 3), numbers(4, 5, 6))[0] == "equal"
        assert run(function, numbers(1, 2, 3), numbers(4, 5, 6), replay=False) == ("wrong", reason)

    @pytest.mark.parametrize("function", [lambda x: x.view(-1), lambda x: x[:0].exp()])
    def test_no_effect(self, function: Function) -> None:
        for replay in (True, False):
            assert run(function, numbers(1, 2, 3), numbers(4, 5, 6), replay=replay)[0] == "no_effect_visible"

    @pytest.mark.parametrize("captured", [lambda before: before.exp(), lambda before: before])
    def test_replay_of_the_captures_numbers(self, captured: Function) -> None:
        """Or of nothing: what no step writes stays garbage."""
        before = numbers(1, 2, 3)

        def stale(x: torch.Tensor) -> torch.Tensor:
            return captured(before) if torch.mps.is_current_stream_capturing() else x.exp()  # type: ignore[no-any-return]

        assert run(stale, numbers(1, 2, 3), numbers(4, 5, 6)) == ("wrong", RESULTS_DIFFER)

    def test_second_samples_are_other_numbers(self) -> None:
        op = next(op for op in cases.op_db if op.name == "exp")
        first = cases.samples(op, torch.float32, False)
        second = cases.other_samples(op, torch.float32, False, len(first))
        with_elements = [(a.input, b.input) for a, b in zip(first, second) if b and a.input.numel()]
        assert with_elements
        for a, b in with_elements:
            assert a.shape == b.shape and not torch.equal(a, b)

    def test_copies_lie_as_the_originals(self) -> None:
        base = torch.arange(6.0, device=DEVICE)
        originals = [base[1:3], base[2:].expand(3, 4), base[:1].expand(5)]
        made = copies(originals)
        assert len({storage_of(tensor) for tensor in made}) == 1
        for one, other in zip(made, originals):
            assert (one.stride(), one.storage_offset()) == (other.stride(), other.storage_offset())
            assert torch.equal(one, other)
        write_all(made[2:], [numbers(9).expand(5)])
        assert made[2].tolist() == [9] * 5 and base[0].item() == 0

    def test_numbers_on_the_host_stay(self) -> None:
        scalar, vector = torch.tensor(2.0), torch.tensor([2.0, 3.0])
        for _, contents in other_contents([scalar, vector], None):
            write_all([scalar, vector], contents)
            break
        assert scalar.item() == 2 and vector.tolist() == [3, 2]

    @pytest.mark.parametrize(
        ("complaints", "error", "outcome"),
        [
            ({}, NotImplementedError("aten::x is not currently implemented for the MPS device"), "eager_lacks"),
            ({"unsupported: -[MPSGraph x] is not simulated": 1}, RuntimeError("any"), "simulator_lacks"),
            ({"violation: x": 1, "unsupported: y": 1}, RuntimeError("any"), "simulator_lacks"),
            ({"execution: \"a\" not implemented for 'ComplexFloat'": 1}, RuntimeError("any"), "simulator_lacks"),
            ({"execution: kernel 'x' wrote beyond the buffer": 1}, RuntimeError("any"), "simulator_refused"),
            ({"violation: one type for all operands": 1}, RuntimeError("any"), "simulator_refused"),
        ],
    )
    def test_exceptions_are_sorted(self, complaints: dict[str, int], error: Exception, outcome: str) -> None:
        assert sort_exception(error, complaints).outcome == outcome

    @pytest.mark.parametrize(
        ("outcome", "reason", "status", "among_others"),
        [
            ("wrong", RESULTS_DIFFER, 0, 0),
            ("wrong", "capture raised: anything", 1, 1),
            ("equal", "permuted", 1, 1),
            ("equal_up_to_rounding", "", 1, 1),
            ("unchanged_inputs", "", 1, 1),
            ("no_effect_visible", "", 1, 0),
            ("refused", "", 1, 0),
            ("crash", "", 1, 1),
        ],
    )
    @pytest.mark.parametrize("before", [[], [{"outcome": "wrong", "reason": RESULTS_DIFFER}]])
    def test_verdict_without_replays(
        self, before: list[dict[str, str]], outcome: str, reason: str, status: int, among_others: int
    ) -> None:
        assert outcome in OUTCOMES
        found = verdict_without_replay([*before, {"outcome": outcome, "reason": reason}], Console(quiet=True))
        assert found == (among_others if before else status)


def run_state(function: Function, first: torch.Tensor, second: torch.Tensor, **options: Any) -> dict[str, str]:
    """The outcome of the sweep with metadata for each change of the tensor."""
    case = cases.Case(function, SampleInput(first), SampleInput(second), gradients=False, **options)
    return {found["change"].partition(" (")[0]: found["outcome"] for found in cases.run_state(case)}


class TestStateSweep:
    def test_changes_raise_until_undone(self) -> None:
        found = run_state(torch.exp, numbers(1, 2, 3, 4).view(2, 2), numbers(5, 6, 7, 8).view(2, 2))
        assert found == {**dict.fromkeys(CHANGED, "raised"), "undone": "equal"}

    @pytest.mark.parametrize("replay", [True, False])
    def test_ignored_changes_are_wrong(self, replay: bool) -> None:
        """Of the tensor itself the graph knows nothing: its storage is all that is looked at."""
        found = run_state(
            lambda x: alias(x).exp(), numbers(1, 2, 3, 4).view(2, 2), numbers(5, 6, 7, 8).view(2, 2), replay=replay
        )
        assert found == {**dict.fromkeys(CHANGED, "wrong"), "undone": "equal" if replay else "wrong"}

    def test_what_eager_does_not_see_either(self) -> None:
        found = run_state(lambda x: torch.zeros_like(x).sum(), numbers(1, 2, 3), numbers(4, 5, 6))
        assert set(found.values()) == {"no_effect_visible", "equal"} and found["undone"] == "equal"

    def test_error_without_the_replays_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def replay(_graph: object) -> None:
            raise RuntimeError("something else")

        monkeypatch.setattr(torch.mps.MPSGraph, "replay", replay)
        assert set(run_state(torch.exp, numbers(1, 2, 3), numbers(4, 5, 6)).values()) == {"wrong"}

    def test_changes_reach_the_metadata_only(self) -> None:
        x = torch.arange(6.0, device=DEVICE).view(2, 3)
        for requires_grad in (False, True):
            for name, change in CHANGES.items():
                (made,) = with_room([x.clone().requires_grad_(requires_grad)], SampleInput(x + 10))
                old = alias(made)
                assert change_metadata(made, change), name
                assert made.requires_grad is requires_grad and old.untyped_storage().nbytes() == 2 * 32
                moved = name.startswith(("offset", "storage"))
                if not name.startswith("stride order and shape"):
                    assert made.flatten().tolist() == (x + 10 * moved).flatten().tolist()[: made.numel()], name


class TestRounding:
    """One element of two is not the same from run to run."""

    EXPECTED = torch.tensor([1.0, 100.0])

    def eager(self) -> list[torch.Tensor]:
        return [torch.tensor([1.0, 100.5])]

    @pytest.mark.parametrize(
        ("replayed", "near"),
        [
            ((1.0, 100.0), True),
            ((1.0, 104.0), True),
            ((1.0, 104.1), False),
            # as far as the other element is from itself
            ((1.5, 100.0), False),
            ((float("nan"), 100.0), False),
            ((1.0, float("nan")), False),
        ],
    )
    def test_each_element_has_its_own_measure(self, replayed: tuple[float, float], near: bool) -> None:
        assert as_near_as_eager_to_itself([torch.tensor(replayed)], [self.EXPECTED], self.eager, 3) is near

    def test_run_without_a_number_measures_nothing(self) -> None:
        runs = iter([float("nan"), float("inf"), 100.0])
        assert not as_near_as_eager_to_itself(
            [torch.tensor([1.0, 101.0])], [self.EXPECTED], lambda: [torch.tensor([1.0, next(runs)])], 3
        )


class TestCaptureMode:
    def test_replayed_on_changed_inputs_which_are_put_back(self) -> None:
        x = numbers(1, 2, 3)
        state = torch.mps.get_rng_state()
        expected = x * 2
        with CaptureMode() as mode:
            y = x * 2
            x.add_(1)
        assert (mode.counts["equal"], mode.changed["equal"]) == (2, 2)
        assert torch.equal(y, expected) and x.tolist() == [2, 3, 4]
        assert torch.equal(torch.mps.get_rng_state(), state)
        with CaptureMode() as mode:
            torch.arange(3, device=DEVICE).add_(1)
        assert mode.changed["inputs that cannot be changed"]

    def test_draws_are_eagers(self) -> None:
        torch.manual_seed(3)
        expected = torch.rand(4, device=DEVICE), torch.rand(4, device=DEVICE)
        torch.manual_seed(3)
        with CaptureMode() as mode:
            drawn = torch.rand(4, device=DEVICE), torch.rand(4, device=DEVICE)
        assert mode.counts["equal"]
        assert all(torch.equal(a, b) for a, b in zip(drawn, expected))

    @pytest.mark.parametrize("function", [torch.exp, torch.rand_like, lambda x: x.add_(1), lambda x: torch.topk(x, 2)])
    def test_replay_left_out(self, function: Function) -> None:
        x = numbers(1, 2, 3)
        with CaptureMode(replays=False) as mode, pytest.raises(AssertionError, match="gave other values than eager"):
            function(x)
        assert mode.counts["different"] == 1 and not mode.counts["equal"]

    def test_replay_of_the_captures_numbers(self) -> None:
        x = numbers(1, 2, 3)

        class Stale(CaptureMode):
            """Its replays read what the input held when it was captured."""

            def submit(self, graph: Any) -> None:
                now = x.clone()
                x.copy_(numbers(1, 2, 3))
                super().submit(graph)
                x.copy_(now)

        with Stale() as mode, pytest.raises(AssertionError, match="on changed inputs"):
            torch.exp(x)
        assert (mode.counts["equal"], mode.changed["different"]) == (1, 1)
        assert x.tolist() == [1, 2, 3]
