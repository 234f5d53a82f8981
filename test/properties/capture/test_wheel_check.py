"""The check that a built wheel must pass: it passes where the series is, and finds what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from fork_tool.wheel import check as wheel_check


def run(monkeypatch: pytest.MonkeyPatch, version: str = torch.__version__, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["wheel_check.py", "--version", version, *words])
    return wheel_check.main()


def test_this_torch_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch) == 0
    said = capsys.readouterr().out
    assert said.count("ok: ") == 3
    assert "3 replays with new input give what eager gives" in said


@pytest.mark.parametrize(
    ("place", "name", "value", "message"),
    [
        (torch, "__version__", "2.6.0", "wrong: torch 2.6.0 from"),
        (torch.mps, "graph_replay", None, "torch.mps has no graph_replay: the wheel was built without the series"),
        (torch.backends.mps, "is_built", lambda: False, "torch was built without MPS"),
        (torch.backends.mps, "is_available", lambda: False, "torch.backends.mps.is_available() is False"),
    ],
)
def test_a_fault_of_the_wheel_is_named(
    place: Any,
    name: str,
    value: Any,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    version = torch.__version__
    monkeypatch.setattr(place, name, value) if value else monkeypatch.delattr(place, name)
    assert run(monkeypatch, version) == 1
    assert message in capsys.readouterr().err


def test_a_machine_that_only_builds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert run(monkeypatch, torch.__version__, "--no-device") == 0
    said = capsys.readouterr().out
    assert said.count("ok: ") == 2
    assert "not checked, since there is no device: that a capture" in said
    # All that needs no device is still looked at.
    monkeypatch.delattr(torch.mps, "graph_replay")
    assert run(monkeypatch, torch.__version__, "--no-device") == 1
    assert "not checked" not in capsys.readouterr().out


def test_replays_that_do_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @contextmanager
    def capture() -> Iterator[None]:
        yield

    monkeypatch.setattr(torch.mps, "graph_capture", capture)
    monkeypatch.setattr(torch.mps, "graph_replay", lambda: None)
    assert run(monkeypatch) == 1
    assert "wrong: replay 1 differs from eager by" in capsys.readouterr().err
