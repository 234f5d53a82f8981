"""The check that a built wheel must pass: it passes where the series is, and finds what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


def test_another_torch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "2.6.0+mps.1.s0123456789") == 1
    assert f"wrong: torch {torch.__version__} from" in capsys.readouterr().err


def test_a_wheel_without_the_series(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delattr(torch.mps, "graph_replay")
    assert run(monkeypatch) == 1
    assert "torch.mps has no graph_replay: the wheel was built without the series" in capsys.readouterr().err


def test_a_wheel_without_mps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: False)
    assert run(monkeypatch) == 1
    assert "torch was built without MPS" in capsys.readouterr().err


def test_no_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert run(monkeypatch) == 1
    assert "torch.backends.mps.is_available() is False" in capsys.readouterr().err


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
