"""`wheel` without FROM_SOURCE: what the command takes, and that a dry run does nothing."""

from pathlib import Path

import pytest

from fork_tool.mac_library import commands as commands_module
from fork_tool.mac_library import make as make_module
from fork_tool.machine.machine import Machine
from fork_tool.paths import own_layout
from workshop import Workshop

MAC_LIBRARY = own_layout().pin.read_text().partition("\n[mac_library]\n")[2].partition("\n[objfw]\n")[0]


@pytest.fixture
def shop(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A Linux machine with this repository's pins."""
    pin = workshop.layout.pin
    pin.write_text(pin.read_text().replace("[objfw]\n", f"[mac_library]\n{MAC_LIBRARY}\n[objfw]\n"))
    monkeypatch.setattr(make_module, "this_machine", lambda: Machine("Linux", "x86_64"))
    monkeypatch.setattr(make_module, "linker_of", lambda _machine: "ld64.lld-19")
    return workshop


def files(root: Path) -> set[Path]:
    return set(root.rglob("*"))


def test_dry_run_shows_and_touches_nothing(shop: Workshop) -> None:
    before = files(shop.root)
    said = shop.good("wheel", "--dry-run", "--python", "3.13", "--jobs", "3")
    assert "It would make dist/torch-0.1+mps.1-cp313-cp313-macosx_13_0_arm64.whl" in said
    assert "ziglang==" in said and "libpython3.13-dev" in said and "-j 3" in said and "ld64.lld-19 -dylib" in said
    assert files(shop.root) == before


def test_words_are_given_on(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, int | None]] = []
    monkeypatch.setattr(commands_module, "make_wheel", lambda _project, python, jobs: seen.append((python, jobs)))
    shop.good("wheel", "--python", "3.13")
    shop.good("wheel", "--jobs", "2")
    assert seen == [("3.13", None), (None, 2)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "USE_KINETO=0"), "--set is for setup.py, which only --from-source runs"),
        (("--from-source", "--python", "3.13"), "--from-source takes the Python it runs on"),
        (("--dry-run", "--python", "2.7"), "There is no official wheel of torch 0.1 for Python 2.7: give one of 3.9, "),
    ],
)
def test_words_that_do_not_go_together(shop: Workshop, words: tuple[str, ...], said: str) -> None:
    assert said in shop.error("wheel", *words)


def test_pins_are_read_when_asked_for(workshop: Workshop) -> None:
    """A repository without the table can do all else."""
    workshop.good("apply")
    assert "lacks the value mac_library" in workshop.error("wheel", "--dry-run")
