"""What base.toml says once the series stands on another base."""

from __future__ import annotations

import re

from fork_tool.base.pin_edit import edit_pin
from fork_tool.rebase.targets import Target
from fork_tool.series.project import Project

_RELEASE = re.compile(r"v(\d+(?:\.\d+)+)")


def rewritten_pin(project: Project, target: Target) -> tuple[str, list[str]]:
    """The new text, and what the user has to look at; nothing is written."""
    pin, path = project.pin, project.layout.pin
    text = path.read_text("utf-8")
    if target.commit == pin.commit:
        return text, []
    values = {
        ("upstream", "tag"): target.name,
        ("upstream", "commit"): target.commit,
        ("upstream", "date"): target.date,
    }
    notes = []
    release = _RELEASE.fullmatch(target.name)
    if release:
        values["wheel", "version"] = release[1]
    else:
        notes.append(
            f"{target.name} is no release: base.toml still names the wheel {pin.wheel}, on which the simulator runs."
        )
    without: tuple[str, ...] = ()
    if pin.tarball:
        without = ("debian",)
        notes.append(
            f"base.toml no longer has the table [debian]: {pin.tarball.name} is not the source of {target.name}."
        )
    notes.append(
        "what base.toml says of building and making wheels ([wheel.build], [mac_library]) is still that of "
        f"{pin.tag}: scripts/mac_wheel/README.md gives the reasons for its values."
    )
    return edit_pin(text, path, values, without), notes
