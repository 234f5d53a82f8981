"""Downloads against a server on this machine: verified, and refused in one sentence."""

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fork_tool.base.download import fetch_file, Unreachable
from fork_tool.base.mirrors import apt_proxies, find_mirrors
from fork_tool.base.pin import Download, load_pin
from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.pin import load_mac_pin
from fork_tool.paths import own_layout

CONTENT = bytes(range(256)) * 5000
WANTED = Download("pool/main/u/up", "up_1+dfsg.tar.xz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "trixie")


class Mirror(ThreadingHTTPServer):
    """Serves one file; `limit` ends an answer early."""

    content = CONTENT
    limit: int | None = None
    asked: int

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/debian"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        mirror = self.server
        assert isinstance(mirror, Mirror)
        mirror.asked += 1
        if self.path != f"/debian/{WANTED.path}":
            self.send_error(404)
            return
        body = mirror.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if mirror.limit is None else body[: mirror.limit])

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    server = Mirror()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_whole_then_cached(mirror: Mirror, tmp_path: Path) -> None:
    path = fetch_file(WANTED, [mirror.address], tmp_path / "cache")
    assert path.read_bytes() == CONTENT
    fetch_file(WANTED, [mirror.address], tmp_path / "cache")
    assert mirror.asked == 1


def test_broken_connection_is_told_and_the_next_run_takes_the_whole(mirror: Mirror, tmp_path: Path) -> None:
    mirror.limit = 1000
    with pytest.raises(Unreachable, match="the connection ended after 1000 of 1280000 bytes"):
        fetch_file(WANTED, [mirror.address], tmp_path)
    mirror.limit = None
    assert fetch_file(WANTED, [mirror.address], tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == [WANTED.name]


def test_wrong_hash_leaves_nothing(mirror: Mirror, tmp_path: Path) -> None:
    mirror.content = CONTENT[:-1] + b"!"
    with pytest.raises(
        ForkToolError, match=r"is not the file that base\.toml names \(sha256 .*nothing of it was kept"
    ) as caught:
        fetch_file(WANTED, [mirror.address], tmp_path)
    assert not isinstance(caught.value, Unreachable)
    assert list(tmp_path.iterdir()) == []


def test_cached_file_that_rotted_is_fetched_again(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / WANTED.name).write_bytes(b"x" * WANTED.size)
    assert fetch_file(WANTED, [mirror.address], tmp_path).read_bytes() == CONTENT


def test_next_mirror_is_tried(mirror: Mirror, tmp_path: Path) -> None:
    mirrors = [f"{mirror.address}/other", "http://127.0.0.1:9", mirror.address]
    assert fetch_file(WANTED, mirrors, tmp_path).read_bytes() == CONTENT


def test_no_network_and_no_mirror(tmp_path: Path) -> None:
    with pytest.raises(
        Unreachable, match=r"could not be downloaded \(http://127\.0\.0\.1:9: Connection refused\): check the network"
    ):
        fetch_file(WANTED, ["http://127.0.0.1:9"], tmp_path)
    with pytest.raises(
        Unreachable, match="apt on this machine knows no Debian mirror to take .* and no public archive is set"
    ):
        fetch_file(WANTED, [], tmp_path)


def test_public_archive_is_asked_last(mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Ubuntu, whose mirrors have nothing of Debian's."""
    monkeypatch.delenv("MPSFORK_ARCHIVES", raising=False)
    wanted = replace(WANTED, archives=("http://127.0.0.1:9/gone", f"{mirror.address}/"))
    assert fetch_file(wanted, [], tmp_path / "one").read_bytes() == CONTENT
    assert fetch_file(wanted, [f"{mirror.address}/ubuntu"], tmp_path / "two").read_bytes() == CONTENT
    assert mirror.asked == 3
    fetch_file(wanted, [mirror.address], tmp_path / "three")
    assert mirror.asked == 4
    monkeypatch.setenv("MPSFORK_ARCHIVES", "")
    with pytest.raises(Unreachable, match="no public archive is set: set MPSFORK_MIRROR"):
        fetch_file(wanted, [], tmp_path / "four")
    monkeypatch.setenv("MPSFORK_ARCHIVES", f"http://127.0.0.1:9 {mirror.address}")
    assert fetch_file(WANTED, [], tmp_path / "five").read_bytes() == CONTENT


def test_all_downloads_of_this_repository_have_public_archives() -> None:
    layout = own_layout()
    pin, mac_pin = load_pin(layout.pin), load_mac_pin(layout.pin)
    for package in (*pin.objfw, mac_pin.fmt, *mac_pin.headers.values(), *([pin.tarball] if pin.tarball else [])):
        assert package.archives[0] == "https://deb.debian.org/debian"
        assert re.fullmatch(r"https://snapshot\.debian\.org/archive/debian/\d{8}T\d{6}Z", package.archives[-1])


def test_no_space(tmp_path: Path) -> None:
    huge = Download(WANTED.pool, WANTED.name, 10**18, WANTED.sha256, "trixie")
    with pytest.raises(ForkToolError, match="make room and run it again"):
        fetch_file(huge, ["http://127.0.0.1:9"], tmp_path)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an apt of its own, whose lists were never fetched."""
    if not shutil.which("apt-get"):
        pytest.skip("there is no apt")
    for name in ("MIRROR", "MPSFORK_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "etc-apt"
    for part in ("sources.list.d", "apt.conf.d", "preferences.d"):
        (folder / part).mkdir(parents=True)
    configuration = tmp_path / "apt.conf"
    configuration.write_text(f'Dir::Etc "{folder}";\nDir::State "{tmp_path}/state";\n')
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    return folder


def test_mirrors_come_from_apt(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (apt / "sources.list").write_text(
        "# deb http://off.example/debian bookworm main\ndeb [arch=amd64] http://one.example/debian/ bookworm main\n"
    )
    (apt / "sources.list.d" / "debian.sources").write_text(
        f"Types: deb\nURIs: mirror+file:{apt}/mirrors.list https://two.example/debian\nSuites: bookworm\n bookworm-updates\nComponents: main\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://disabled.example/debian\nSuites: bookworm\nComponents: main\n"
    )
    assert find_mirrors() == ["http://one.example/debian", "https://two.example/debian"]
    monkeypatch.setenv("MPSFORK_MIRROR", "http://mine.example/debian/")
    assert find_mirrors()[0] == "http://mine.example/debian"


def test_lists_that_apt_can_not_read(apt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_mirrors() == []
    assert capsys.readouterr().out == ""
    (apt / "sources.list").write_text("deb http://one.example/debian bookworm main\nnonsense\n")
    assert find_mirrors() == []
    assert "Malformed line 2 in source list" in " ".join(capsys.readouterr().out.split())


def test_no_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MPSFORK_MIRROR", "http://mine.example/debian/")
    assert find_mirrors() == ["http://mine.example/debian"]
    assert apt_proxies() == {}
    assert capsys.readouterr().out == ""


def test_proxies_come_from_apt(apt: Path) -> None:
    with Path(os.environ["APT_CONFIG"]).open("a") as stream:
        stream.write('Acquire::http::Proxy "http://proxy.example:3128";\nAcquire::https::Proxy "DIRECT";\n')
    assert apt_proxies() == {"http": "http://proxy.example:3128"}
