"""A directory that is filled under another name and moved into place when it is complete."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fork_tool.common import files
from fork_tool.common.files import new_directory


def fill(into: Path, text: str) -> None:
    with new_directory(into) as new:
        (new / "file").write_text(text)


def test_it_takes_the_old_ones_place(tmp_path: Path) -> None:
    into = tmp_path / "parent" / "place"
    fill(into, "old")
    (into / "more").write_text("gone afterwards")
    fill(into, "new")
    assert [path.name for path in into.iterdir()] == ["file"]
    assert (into / "file").read_text() == "new"
    assert into.stat().st_mode & 0o777 == 0o755
    assert list(into.parent.iterdir()) == [into]


def test_an_error_leaves_the_old_one(tmp_path: Path) -> None:
    into = tmp_path / "place"
    fill(into, "old")
    with pytest.raises(ValueError, match="no data"), new_directory(into) as new:
        (new / "file").write_text("half")
        raise ValueError("no data")
    assert (into / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [into]


def test_what_a_killed_run_left_is_removed_and_no_other_directory(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        with new_directory(tmp_path / "place") as new:
            (new / "file").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    (left,) = tmp_path.iterdir()
    other = tmp_path / ".place2-partial-"
    other.mkdir()
    fill(tmp_path / "place", "whole")
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".place2-partial-", "place"]


def test_an_interrupt_waits_until_the_new_one_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the removal of the old one and the move of the new one there is none."""
    into = tmp_path / "place"
    fill(into, "old")
    remove = files.remove

    def remove_and_interrupt(path: Path) -> None:
        remove(path)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(files, "remove", remove_and_interrupt)
    with pytest.raises(KeyboardInterrupt), new_directory(into) as new:
        (new / "file").write_text("new")
    assert (into / "file").read_text() == "new"
