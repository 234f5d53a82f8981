"""`fetch`: from a checkout, from git, from the tarball; nothing half-unpacked is ever left."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from fork_tool.base import fetch as fetch_module
from fork_tool.base import tarball as tarball_module
from fork_tool.base.tarball import commit_tree, unpack, unpack_package
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git
from workshop import command_git, Workshop


def make_tarball(path: Path) -> Path:
    """A small source tarball with a program, a link and an ignored file."""
    with tarfile.open(path, "w:xz") as archive:
        for name, content, mode in (
            ("up-0.1/.gitignore", b"ignored\n", 0o644),
            ("up-0.1/ignored", b"kept all the same\n", 0o644),
            ("up-0.1/tools/run.sh", b"#!/bin/sh\n", 0o755),
            ("up-0.1/aten/Stream.mm", b"one\r\ntwo\n", 0o644),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("up-0.1/link")
        link.type, link.linkname = tarfile.SYMTYPE, "aten/Stream.mm"
        archive.addfile(link)
    return path


@pytest.fixture
def unfetched(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """No checkout yet; the tarball lies in the cache, and nothing else answers."""
    workshop.checkout.rename(workshop.root / "own")
    cache = workshop.layout.cache
    cache.mkdir()
    path = make_tarball(cache / "upstream_0.1.orig.tar.xz")
    scratch = workshop.root / "scratch"
    unpack(path, scratch)
    tree = commit_tree(scratch, workshop.project.pin, path.name)
    workshop.write_pin(
        url=f"file://{workshop.root}/nothing",
        size=str(path.stat().st_size),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        tree=tree,
    )
    monkeypatch.setattr(fetch_module, "find_mirrors", lambda: ["http://127.0.0.1:9"])
    monkeypatch.setattr(fetch_module, "_CLONE_BYTES", 0)
    monkeypatch.setattr(fetch_module, "NEEDED_BYTES", 0)
    return workshop


def left_behind(shop: Workshop) -> list[str]:
    """What is in build/ besides the lock."""
    return sorted(path.name for path in shop.layout.build.iterdir() if path.name != ".lock")


def test_tarball(unfetched: Workshop) -> None:
    output = unfetched.good("fetch")
    assert "does not answer; trying debian instead" in output
    assert "build/pytorch is now a checkout of PyTorch v0.1." in output
    checkout = unfetched.checkout
    assert os.access(checkout / "tools/run.sh", os.X_OK)
    assert (checkout / "aten/Stream.mm").read_bytes() == b"one\r\ntwo\n"
    assert (checkout / "link").is_symlink()
    assert " ".join(command_git(checkout, "ls-files").split()) == ".gitignore aten/Stream.mm ignored link tools/run.sh"
    assert command_git(checkout, "status", "--porcelain") == ""
    assert left_behind(unfetched) == ["pytorch"]
    first = command_git(checkout, "rev-parse", "HEAD")
    assert "was already a checkout" in unfetched.good("fetch")
    unfetched.good("clean", "--checkout")
    unfetched.good("fetch", "--source", "debian")
    assert command_git(checkout, "rev-parse", "HEAD") == first
    unfetched.good("apply")


def test_corrupted_download_is_not_unpacked(unfetched: Workshop) -> None:
    path = unfetched.layout.cache / "upstream_0.1.orig.tar.xz"
    path.write_bytes(path.read_bytes()[:-1])
    error = unfetched.error("fetch")
    assert "No source of PyTorch v0.1 could be reached" in error
    assert "scripts/mpsfork fetch --checkout DIR" in error
    assert left_behind(unfetched) == []


def test_another_tree_is_refused(unfetched: Workshop) -> None:
    values = unfetched.project.pin
    assert values.tarball is not None
    unfetched.write_pin(url=values.url, size=str(values.tarball.size), sha256=values.tarball.sha256, tree="2" * 40)
    assert "not 222222222222 as base.toml says" in unfetched.error("fetch")
    assert left_behind(unfetched) == []


@pytest.mark.parametrize("strike", ["unpack", "commit_tree"])
def test_ctrl_c_leaves_nothing_half_done(unfetched: Workshop, monkeypatch: pytest.MonkeyPatch, strike: str) -> None:
    real = getattr(fetch_module, strike)

    def interrupted(*arguments: object) -> None:
        real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetch_module, strike, interrupted)
        assert unfetched.run("fetch").exit_code != 0
    assert left_behind(unfetched) == []
    unfetched.good("fetch")


def test_broken_tarball(tmp_path: Path) -> None:
    path = make_tarball(tmp_path / "up.tar.xz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ForkToolError, match="could not be unpacked .*: delete it and run it again"):
        tarball_module.unpack(path, tmp_path / "out")


def test_package_is_unpacked_without_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has Python 3.11.2, whose tarfile knows no filters."""
    extract_all = tarfile.TarFile.extractall
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extractall", lambda self, path, members: extract_all(self, path, members))
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("./usr/wanted"))
        archive.addfile(tarfile.TarInfo("./etc/other"))
    content = data.getvalue()
    package = tmp_path / "a.deb"
    package.write_bytes(b"!<arch>\n" + f"{'data.tar.gz/':48}{len(content):<10}`\n".encode() + content)
    unpack_package(package, tmp_path / "new", "./usr")
    assert [path.name for path in (tmp_path / "new").rglob("*")] == ["usr", "wanted"]


def test_clone_of_the_commit(unfetched: Workshop) -> None:
    unfetched.write_pin(url=f"file://{unfetched.root / 'own'}", commit="b" * 40)
    assert "broke off" in unfetched.error("fetch", "--source", "git")
    assert left_behind(unfetched) == []
    unfetched.write_pin(url=f"file://{unfetched.root / 'own'}")
    unfetched.good("fetch", "--source", "git")
    assert unfetched.head == unfetched.base
    assert left_behind(unfetched) == ["pytorch"]
    unfetched.good("apply")


def test_own_checkout(unfetched: Workshop) -> None:
    own = unfetched.root / "own"
    unfetched.good("fetch", "--checkout", str(own))
    assert unfetched.checkout.resolve() == own
    unfetched.overlay("aten/New.h")
    unfetched.patch("new", "[MPS] New\n\nTest Plan: none\n\nOverlay:\n  aten/New.h\n")
    unfetched.good("apply")
    assert (own / "aten/New.h").exists()
    assert "was already" in unfetched.good("fetch", "--checkout", str(own))
    assert "was already" in unfetched.good("fetch")
    unfetched.good("verify")
    unfetched.good("clean", "--checkout")
    assert (own / "aten/New.h").exists()


def test_own_checkout_that_does_not_fit(unfetched: Workshop, tmp_path: Path) -> None:
    own = unfetched.root / "own"
    assert "is not a directory" in unfetched.error("fetch", "--checkout", str(tmp_path / "nowhere"))
    assert "is not the top of a git checkout" in unfetched.error("fetch", "--checkout", str(own / "aten"))
    assert "is not the top of a git checkout" in unfetched.error("fetch", "--checkout", str(tmp_path))
    command_git(own, "commit", "--quiet", "--allow-empty", "--message=later")
    moved = unfetched.error("fetch", "--checkout", str(own))
    assert "(base), not at PyTorch v0.1 (" in moved
    assert "checkout v0.1` and run this again" in moved
    assert left_behind(unfetched) == []


def test_own_checkout_does_not_replace_another(unfetched: Workshop) -> None:
    unfetched.good("fetch")
    assert "is there already and is another checkout" in unfetched.error(
        "fetch", "--checkout", str(unfetched.root / "own")
    )


def test_own_checkout_that_is_gone(unfetched: Workshop) -> None:
    own = unfetched.root / "own"
    unfetched.good("fetch", "--checkout", str(own))
    own.rename(unfetched.root / "moved")
    assert "which is gone: `rm build/pytorch`" in unfetched.error("fetch")
    unfetched.good("fetch", "--checkout", str(unfetched.root / "moved"))


def test_git_does_not_see_callers_repository(unfetched: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(unfetched.root / "own" / ".git"))
    assert "GIT_DIR" not in Git(unfetched.root).environment()
    unfetched.good("fetch")
