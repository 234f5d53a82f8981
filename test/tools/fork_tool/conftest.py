"""Fixtures of the fork tool's tests."""

import shutil
import signal
from pathlib import Path

import pytest

from fork_tool.base import download
from moving import moving_shop, opened
from workshop import HUNK, MESSAGE, Workshop


@pytest.fixture(autouse=True, scope="session")
def hear_signals() -> None:
    """A shell that starts the tests in the background lets them, and what they start, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses on this machine are asked directly, without the user's proxies."""
    monkeypatch.setattr(download, "apt_proxies", dict)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A fresh repository with a checkout of the tiny upstream; nothing of the user's is used."""
    monkeypatch.setenv("MPSFORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return Workshop(tmp_path / "repository")


@pytest.fixture
def applied(workshop: Workshop) -> Workshop:
    """The same with one patch, applied: a hunk and an overlay file."""
    workshop.overlay("aten/Recorder.h", "class Recorder;\n")
    workshop.patch("recorder", f"{MESSAGE}\n\nOverlay:\n  aten/Recorder.h\n\nHunks: 1\n\n{HUNK}")
    workshop.good("apply")
    return workshop


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A series of four patches; made once, each test has a copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        return moving_shop(tmp_path_factory.mktemp("template") / "repository")


@pytest.fixture
def shop(template: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """The series of four patches, applied."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    shutil.copytree(template.root, tmp_path / "repository", symlinks=True)
    return opened(tmp_path / "repository", template.base)
