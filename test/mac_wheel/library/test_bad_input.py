"""What is wrong with what `make wheel` is given is told in one sentence, before anything is made of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library import headers as headers_module
from fork_tool.mac_library import link as link_module
from fork_tool.mac_library.headers import lay_headers, python_headers
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import bench_of
from fork_tool.mac_library.official import fetch_official
from fork_tool.mac_library.places import LIBRARY
from fork_tool.machine import package_index
from fork_tool.machine.machine import Machine, Need
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from made_wheel import Made


def said(call: Callable[[], object]) -> str:
    """The sentence with which a call fails."""
    with pytest.raises(ForkToolError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and text.endswith((".", ".)"))
    return text


def test_damaged_file_in_the_cache_is_not_used(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is removed and fetched again; where that fails too, the sentence says what to look at."""
    bench = made.bench
    cache = tmp_path / "cache"
    cache.mkdir()
    damaged = cache / bench.pin.official_wheel(bench.python).name
    damaged.write_bytes(b"not a wheel")
    monkeypatch.setattr(package_index, "run_shown", lambda *_words: 1)
    text = said(lambda: fetch_official(bench.places, bench.pin, bench.python, cache))
    assert "could not be downloaded with the hash in base.toml" in text
    assert list(cache.iterdir()) == []


def test_index_that_gives_another_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = made.bench
    name = bench.pin.official_wheel(bench.python).name

    def download(command: list[str], _directory: Path) -> int:
        (Path(command[command.index("--dest") + 1]) / name).write_bytes(b"another wheel")
        return 0

    monkeypatch.setattr(package_index, "run_shown", download)
    text = said(lambda: fetch_official(bench.places, bench.pin, bench.python, tmp_path))
    assert "is not the wheel that base.toml names" in text
    assert list(tmp_path.iterdir()) == []


def test_missing_header(made: Made, tmp_path: Path) -> None:
    """One of the headers that this repository has for Apple's frameworks."""
    bench = made.bench
    places = replace(bench.places, repository=tmp_path)
    for name in ("test/simulator/include/Foundation", "scripts/mac_wheel/include/os"):
        shutil.copytree(bench.places.repository / name, tmp_path / name)
    text = said(lambda: lay_headers(places, bench.pin, bench.cache))
    assert text == "test/simulator/include/CoreFoundation is missing: bring it back with `git checkout`."


def test_no_headers_of_this_python(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = made.bench
    monkeypatch.setattr(headers_module, "_own_headers", lambda _python: None)
    text = said(lambda: python_headers(bench.places, bench.pin, "3.12", bench.cache))
    assert text.startswith("There is no Python.h for Python 3.12: install python3.12 with its headers (python3.12-dev)")
    assert "`make wheel PYTHON=3.11`" in text


def test_other_systems() -> None:
    text = said(lambda: bench_of(Project(own_layout()), "3.11", Machine("Windows", "AMD64")))
    assert text.startswith("This is Windows: the wheel for a Mac is made on Linux or on a Mac")


def test_no_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Need("lld 19", "links", (), "lld-19")
    monkeypatch.setattr(link_module, "LINKER", gone)
    text = said(lambda: linker_of(Machine("Linux", "x86_64", "Debian", frozenset({"debian"}))))
    assert text == "There is no lld 19 to link the library with: run `make setup`, then this again."


def test_library_name_is_the_loaders() -> None:
    loader = (own_layout().root / "scripts" / "mac_wheel" / "python" / "_mps_graph_loader.py").read_text()
    assert f'"{LIBRARY.removesuffix(".dylib")}." + suffix' in loader
    assert os.sep not in LIBRARY
