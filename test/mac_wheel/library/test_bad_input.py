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
from fork_tool.mac_library.headers import lay_headers, python_headers, unpack_headers
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import bench_of
from fork_tool.mac_library.official import fetch_official, PIN, pinned, refuse_other_architecture, uuid_of
from fork_tool.mac_library.pin import load_mac_pin
from fork_tool.mac_library.places import LIBRARY, TORCH_LIBRARIES
from fork_tool.machine import package_index
from fork_tool.machine.machine import Machine, Need
from fork_tool.machine.package_index import believe_wheel
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from made_wheel import Made, SmallLibraries


def said(call: Callable[[], object]) -> str:
    """The sentence with which a call fails."""
    with pytest.raises(ForkToolError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and text.endswith((".", ".)"))
    return text


def test_file_of_another_hash(made: Made, tmp_path: Path) -> None:
    wheel = made.bench.pin.official_wheel(made.bench.python)
    damaged = tmp_path / wheel.name
    content = bytearray(made.official.read_bytes())
    content[1000] ^= 1
    damaged.write_bytes(content)
    text = said(lambda: believe_wheel(damaged, pinned(made.bench.pin, wheel), PIN))
    assert f"{wheel.name} is not the wheel that base.toml names (sha256 " in text
    assert f"expected {wheel.sha256[:16]}…" in text


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


def test_another_architecture(made: Made, small: SmallLibraries, tmp_path: Path) -> None:
    torch = tmp_path / "torch"
    (torch / "lib").mkdir(parents=True)
    for name in TORCH_LIBRARIES:
        shutil.copy(made.library, torch / "lib" / name)
    refuse_other_architecture(made.lief, torch)
    intel = small.compile("int f() { return 0; }", "-target", "x86_64-macos.13.3")
    shutil.copy(intel, torch / "lib" / TORCH_LIBRARIES[0])
    text = said(lambda: refuse_other_architecture(made.lief, torch))
    assert f"torch/lib/{TORCH_LIBRARIES[0]} of the official wheel is for X86_64 and not for arm64" in text
    (torch / "lib" / TORCH_LIBRARIES[0]).unlink()
    assert "has no torch/lib/" in said(lambda: refuse_other_architecture(made.lief, torch))


def test_library_without_a_uuid(made: Made, small: SmallLibraries) -> None:
    nameless = small.compile("int f() { return 0; }")
    assert "has no UUID" in said(lambda: uuid_of(made.lief, nameless))


def test_no_room(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1_000_000))
    bench = made.bench
    text = said(lambda: fetch_official(bench.places, bench.pin, bench.python, tmp_path))
    assert "needs 0.1 GB in" in text and "0.0 GB are free: make room and run it again" in text


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


def test_python_without_a_wheel() -> None:
    text = said(lambda: bench_of(Project(own_layout()), "3.8"))
    assert text == "There is no official wheel of torch 2.6.0 for Python 3.8: give one of 3.9, 3.10, 3.11, 3.12, 3.13."


def test_other_systems() -> None:
    text = said(lambda: bench_of(Project(own_layout()), "3.11", Machine("Windows", "AMD64")))
    assert text.startswith("This is Windows: the wheel for a Mac is made on Linux or on a Mac")


def test_no_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Need("lld 19", "links", lambda: None, "lld-19")
    monkeypatch.setattr(link_module, "LINKER", gone)
    text = said(lambda: linker_of(Machine("Linux", "x86_64", "Debian", frozenset({"debian"}))))
    assert text == "There is no lld 19 to link the library with: run `make setup`, then this again."


def test_file_that_is_no_package(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.deb"
    file.write_text("<html>")
    monkeypatch.setattr(headers_module, "fetch_file", lambda *_words: file)
    text = said(lambda: unpack_headers(made.bench.pin.fmt, tmp_path, tmp_path / "into"))
    assert text == f"{file} is no Debian package: delete it and run this again."
    assert not (tmp_path / "into").exists()


def test_pin_with_a_bad_hash(tmp_path: Path) -> None:
    text = own_layout().pin.read_text()
    pin = tmp_path / "base.toml"
    sha256 = load_mac_pin(own_layout().pin).fmt.sha256
    pin.write_text(text.replace(sha256, "abc"))
    assert "mac_library.fmt.sha256 is 'abc', and must be the SHA-256 of a file" in said(lambda: load_mac_pin(pin))
    pin.write_text(text.replace('\nplatform = "', '\nplatforms = "'))
    assert "lacks the value mac_library.platform: add it" in said(lambda: load_mac_pin(pin))


def test_library_name_is_the_loaders() -> None:
    loader = (own_layout().root / "scripts" / "mac_wheel" / "python" / "_mps_graph_loader.py").read_text()
    assert f'"{LIBRARY.removesuffix(".dylib")}." + suffix' in loader
    assert os.sep not in LIBRARY
