"""`release-notes`: what a release is, from CHANGELOG.md, the series and the wheels that lie in dist/."""

import re
from pathlib import Path

from fork_tool.base.download import sha256_of
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.series.project import Project

CHANGELOG = "CHANGELOG.md"


def write_release_notes(project: Project) -> Path:
    """Write the notes of the version that base.toml names; returns the file."""
    layout = project.layout
    path = layout.reports / f"release-{project.pin.version}.md"
    text = release_notes(project)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path


def release_notes(project: Project) -> str:
    """The notes, as Markdown."""
    pin = project.pin
    rows = [f"| `{entry.name}` | {entry.title} |" for entry in project.entries()]
    parts = [
        f"# {pin.version}",
        _section(project),
        "## Base",
        f"PyTorch [{pin.tag}]({pin.url.removesuffix('.git')}/tree/{pin.commit}), commit `{pin.commit}`.",
        f"## The series: {len(rows)} entries",
        "\n".join(["| entry | title |", "|---|---|", *rows]),
        "## Wheels",
        _wheels(project),
    ]
    return "\n\n".join(parts) + "\n"


def _section(project: Project) -> str:
    """What CHANGELOG.md says of the version."""
    version = project.pin.version
    path = project.layout.root / CHANGELOG
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ForkToolError(f"There is no {CHANGELOG}: bring it back with `git checkout -- {CHANGELOG}`.") from None
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found or not found[1].strip():
        raise ForkToolError(
            f"{CHANGELOG} {'says nothing under' if found else 'has no section'} “## {version}”, the version that base.toml names "
            f"([release] number {project.pin.number}): write what a user notices of it, or set the number of the release that you mean."
        )
    return found[1].strip()


def _wheels(project: Project) -> str:
    """Those in dist/, of this version."""
    wheels = sorted((project.layout.root / "dist").glob(f"torch-{project.pin.version}-*.whl"))
    if not wheels:
        return "None: `make wheel` had made none of this version in `dist/` when these notes were written."
    rows = [f"| `{wheel.name}` | {wheel.stat().st_size:,} | `{sha256_of(wheel)}` |" for wheel in wheels]
    return "\n".join(["| file | bytes | SHA-256 |", "|---|---|---|", *rows])
