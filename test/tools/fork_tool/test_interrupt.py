"""Ctrl-C and the tool as a process of its own: status 130, one sentence, nothing half done."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fork_tool.common import files
from fork_tool.common.files import new_directory, write_atomically
from fork_tool.paths import own_layout
from fork_tool.series import write_series as write_module
from workshop import command_git, Workshop


def copy_of_the_tool(shop: Workshop) -> list[str]:
    """The tool in the test's repository; returns the command that starts it."""
    own = own_layout()
    shutil.copytree(own.root / "scripts", shop.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(own.requirements, shop.layout.requirements)
    code = "import sys; sys.path.insert(0, 'scripts'); from fork_tool.cli import main; main()"
    return [sys.executable, "-c", code]


def slow_git(shop: Workshop, word: str, before: bool) -> dict[str, str]:
    """An environment whose git takes a second over one command, before or after doing it."""
    directory = shop.root / "slow"
    directory.mkdir()
    real = shutil.which("git")
    calls = ['echo now > "$MARK"; sleep 0.4', f'{real} "$@"']
    lines = "\n".join(calls if before else calls[::-1])
    (directory / "git").write_text(
        f'#!/bin/sh\ncase " $* " in *" {word} "*)\n{lines}\nexit $?;; esac\nexec {real} "$@"\n'
    )
    (directory / "git").chmod(0o755)
    return os.environ | {"PATH": f"{directory}:{os.environ['PATH']}", "MARK": str(shop.root / "mark")}


@pytest.mark.parametrize(
    ("word", "before", "number"),
    [
        ("commit-tree", True, signal.SIGINT),
        ("checkout", True, signal.SIGINT),
        ("checkout", False, signal.SIGTERM),
        ("update-ref", True, signal.SIGINT),
    ],
)
def test_apply_interrupted(workshop: Workshop, word: str, before: bool, number: signal.Signals) -> None:
    workshop.overlay("aten/New.h")
    workshop.patch("new", "[MPS] New\n\nTest Plan: none\n\nOverlay:\n  aten/New.h\n")
    command = copy_of_the_tool(workshop)
    command_git(workshop.checkout, "config", "core.excludesFile", "/dev/null")
    process = subprocess.Popen(
        [*command, "apply"],
        cwd=workshop.root,
        env=slow_git(workshop, word, before),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not (workshop.root / "mark").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (130, "error: Stopped; the next run takes up where this one left off.")
    again = subprocess.run([*command, "apply"], cwd=workshop.root, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert workshop.titles == ["[MPS] New"]
    assert command_git(workshop.checkout, "status", "--porcelain") == ""


def test_refresh_interrupted_while_writing(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    applied.commit("[MPS] Second", {"aten/Graph.mm": "2\n", "aten/Second.h": "x\n"})

    def write(path: Path, content: bytes, executable: bool = False) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write_atomically(path, content, executable)

    with monkeypatch.context() as patch:
        patch.setattr(write_module, "write_atomically", write)
        assert applied.run("refresh").exit_code != 0
    assert applied.layout.series.read_text().endswith("recorder\nsecond\n")
    assert "no files changed" in applied.good("refresh")
    assert "already applied" in applied.good("apply")


def test_user_error_is_one_line_and_no_traceback(workshop: Workshop) -> None:
    command = copy_of_the_tool(workshop)
    workshop.layout.series.write_text("lost\n")
    done = subprocess.run([*command, "apply"], cwd=workshop.root, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("error: patches/series names the patch lost")
    done = subprocess.run([*command, "appply"], cwd=workshop.root, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_second_run_waits_for_the_first(workshop: Workshop) -> None:
    command = copy_of_the_tool(workshop)
    with (workshop.layout.build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen([*command, "apply"], cwd=workshop.root, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        assert "waiting for it to end" in second.stdout.readline()
        assert second.poll() is None
    assert "0 patches applied" in second.communicate(timeout=30)[0]
    assert second.returncode == 0


def test_launcher_makes_the_environment_and_starts_the_tool(workshop: Workshop) -> None:
    copy_of_the_tool(workshop)
    # Stands for `pip install`: the packages are taken from where the tests found them.
    venv = workshop.layout.environment
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = next((venv / "lib").glob("python*/site-packages"))
    import click

    (packages / "here.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
    done = subprocess.run(
        [str(workshop.root / "scripts" / "mpsfork"), "apply"], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "0 patches applied to the branch mps-graph in build/pytorch." in done.stdout


def test_launcher_without_a_fitting_python(workshop: Workshop) -> None:
    copy_of_the_tool(workshop)
    environment = os.environ | {"MPSFORK_PYTHON": "/bin/false"}
    done = subprocess.run(
        [sys.executable, str(workshop.root / "scripts" / "mpsfork")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: Python 3.11, 3.12 or 3.13 is needed and was not found")


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
