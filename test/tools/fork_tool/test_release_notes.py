"""Notes of a release: the changelog's section, base, entries and wheels; and the version, which is in one place."""

from __future__ import annotations

import hashlib
import re

import pytest

from fork_tool.base.pin import load_pin
from fork_tool.mac_library.archive import wheel_name
from fork_tool.mac_library.pin import load_mac_pin
from fork_tool.paths import own_layout
from fork_tool.version import VERSION
from fork_tool.wheel.release_notes import release_notes
from workshop import Workshop

ROOT = own_layout().root


def changelog(shop: Workshop, text: str) -> None:
    (shop.root / "CHANGELOG.md").write_text(f"# What has changed\n\n{text}")


def test_notes_have_section_base_entries_and_wheels(applied: Workshop) -> None:
    changelog(
        applied,
        "## 0.1+mps.2\n\nLater.\n\n## 0.1+mps.1 (today)\n\n### Capture\n\n- It records.\n\n## 0.1+mps.0\n\nEarlier.\n",
    )
    wheel = applied.root / "dist" / "torch-0.1+mps.1-cp311-cp311-macosx_13_0_arm64.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"wheel")
    (wheel.parent / "torch-0.1+mps.2-cp311-cp311-macosx_13_0_arm64.whl").touch()
    said = applied.good("release-notes")
    assert "The notes of 0.1+mps.1 are in build/reports/release-0.1+mps.1.md." in " ".join(said.split())
    notes = (applied.layout.reports / "release-0.1+mps.1.md").read_text()
    assert notes.startswith("# 0.1+mps.1\n\n### Capture\n\n- It records.\n\n## Base\n\n")
    assert f"PyTorch [v0.1](https://upstream.invalid/upstream/tree/{applied.base}), commit `{applied.base}`." in notes
    assert "## The series: 1 entries\n\n| entry | title |\n|---|---|\n| `recorder` | [MPS] Add a recorder |" in notes
    assert f"| `{wheel.name}` | 5 | `{hashlib.sha256(b'wheel').hexdigest()}` |\n" in notes
    assert "Later" not in notes and "Earlier" not in notes and "mps.2" not in notes


def test_no_wheels(applied: Workshop) -> None:
    changelog(applied, "## 0.1+mps.1\n\nIt records.\n")
    assert "None: `make wheel` had made none of this version" in release_notes(applied.project)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("## 0.1+mps.10\n\nOther.\n", "has no section “## 0.1+mps.1”"),
        ("### 0.1+mps.1\n\nOf another level.\n", "has no section “## 0.1+mps.1”"),
        ("## 0.1+mps.1\n\n## 0.1+mps.0\n\nEarlier.\n", "says nothing under “## 0.1+mps.1”"),
    ],
)
def test_a_version_without_a_section_is_refused(applied: Workshop, text: str, sentence: str) -> None:
    changelog(applied, text)
    error = applied.error("release-notes")
    assert sentence in error and "[release] number 1" in error
    assert not applied.layout.reports.exists()


def test_no_changelog(applied: Workshop) -> None:
    assert "There is no CHANGELOG.md" in applied.error("release-notes")


def test_this_repository_has_notes() -> None:
    from fork_tool.series.project import Project

    notes = release_notes(Project(own_layout()))
    assert notes.startswith(f"# {VERSION}\n")
    assert all(f"`{entry.name}`" in notes for entry in Project(own_layout()).entries())


def test_the_version_is_in_one_place() -> None:
    pin, mac_pin = load_pin(own_layout().pin), load_mac_pin(own_layout().pin)
    assert re.fullmatch(r"2\.6\.0\+mps\.\d+", VERSION)
    assert VERSION == pin.version == mac_pin.version
    assert wheel_name(mac_pin, "3.11").startswith(f"torch-{VERSION}-cp311-")
