"""The Python examples of the README and of docs/ run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
# test/examples builds and runs those of docs/custom-kernels.md.
DOCS = (page for page in sorted((ROOT / "docs").rglob("*.md")) if page.stem != "custom-kernels")
PAGES = [ROOT / "README.md", *DOCS]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def with_examples() -> list[Path]:
    return [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", with_examples(), ids=lambda page: page.name)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a page one after the other, in one module."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    names: dict[str, Any] = {}
    for example in BLOCK.findall(page.read_text()):
        exec(compile(example, str(page), "exec"), names)
    torch.mps.synchronize()


@pytest.fixture(autouse=True)
def _restore_settings() -> Any:
    enabled = torch._C._mps_is_executable_cache_enabled()
    yield
    torch._C._mps_set_executable_cache_enabled(enabled)


def test_readme_shows_a_replay_on_new_input() -> None:
    names: dict[str, Any] = {}
    exec(BLOCK.findall((ROOT / "README.md").read_text())[0], names)
    new = torch.randn(32, 64)
    names["x"].copy_(new)
    names["y"].fill_(7)
    torch.mps.graph_replay()
    with torch.no_grad():
        torch.testing.assert_close(names["y"], names["model"](names["x"]), rtol=0, atol=0)
