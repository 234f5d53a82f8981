"""`wheel`: what it is told, and what is refused."""

import pytest

from fork_tool.mac_library import make as make_module
from fork_tool.paths import own_layout
from workshop import LINUX, Workshop

MAC_LIBRARY = own_layout().pin.read_text().partition("\n[mac_library]\n")[2].partition("\n[objfw]\n")[0]


@pytest.fixture
def with_pins(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A Linux machine with this repository's pins."""
    pin = workshop.layout.pin
    pin.write_text(pin.read_text().replace("[objfw]\n", f"[mac_library]\n{MAC_LIBRARY}\n[objfw]\n"))
    monkeypatch.setattr(make_module, "this_machine", lambda: LINUX)
    monkeypatch.setattr(make_module, "linker_of", lambda _machine: "ld64.lld-19")
    return workshop


def test_words_are_given_on(with_pins: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, int | None]] = []
    monkeypatch.setattr(make_module, "make_wheel", lambda _project, python, jobs: seen.append((python, jobs)))
    with_pins.good("wheel", "--python", "3.13")
    with_pins.good("wheel", "--jobs", "2")
    assert seen == [("3.13", None), (None, 2)]


def test_a_python_without_an_official_wheel(with_pins: Workshop) -> None:
    error = with_pins.error("wheel", "--python", "2.7")
    assert "There is no official wheel of torch 0.1 for Python 2.7: give one of 3.9, " in error


def test_pins_are_read_when_asked_for(workshop: Workshop) -> None:
    """A repository without the table can do all else."""
    workshop.good("apply")
    assert "lacks the value mac_library" in workshop.error("wheel")
