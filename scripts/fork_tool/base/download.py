"""Downloads, which are used only when their hash is right."""

import hashlib
import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from fork_tool.base.mirrors import apt_proxies, MIRROR_VARIABLE, public_archives
from fork_tool.base.pin import Download
from fork_tool.common.console import byte_progress
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import need_space

_CHUNK = 1 << 18
TIMEOUT_SECONDS = 30.0


class Unreachable(ForkToolError):
    """No mirror gives the file; another source may do."""


class NotThere(Exception):
    """A mirror does not give the file; the text says why."""


def fetch_file(wanted: Download, mirrors: list[str], cache: Path) -> Path:
    """The file in the cache, downloaded from the first mirror that has it."""
    path = cache / wanted.name
    if path.is_file() and path.stat().st_size == wanted.size and sha256_of(path) == wanted.sha256:
        return path
    mirrors = list(dict.fromkeys([*mirrors, *public_archives(wanted.archives)]))
    if not mirrors:
        raise Unreachable(
            f"apt on this machine knows no Debian mirror to take {wanted.name} from, and no public archive is set: set {MIRROR_VARIABLE} to one (its address up to and without /pool)."
        )
    need_space(cache, wanted.size * 2, f"Downloading {wanted.name}")
    cache.mkdir(parents=True, exist_ok=True)
    part = cache / f"{wanted.name}.part"
    reasons = []
    for mirror in mirrors:
        address = f"{mirror}/{quote(wanted.path, safe='/+')}"
        try:
            _download(address, part, wanted)
        except NotThere as reason:
            reasons.append(f"{mirror}: {reason}")
            continue
        _believe(part, path, wanted, address)
        return path
    raise Unreachable(
        f"{wanted.name} could not be downloaded ({'; '.join(reasons)}): check the network, or set {MIRROR_VARIABLE} to a mirror that has Debian {wanted.release}."
    )


def _believe(part: Path, path: Path, wanted: Download, address: str) -> None:
    size = part.stat().st_size
    found = sha256_of(part)
    if size == wanted.size and found == wanted.sha256:
        part.replace(path)
        return
    part.unlink()
    raise ForkToolError(
        f"{address} is not the file that base.toml names (sha256 {found[:16]}…, {size} bytes; expected {wanted.sha256[:16]}…, {wanted.size} bytes): "
        f"nothing of it was kept; run it again, or set {MIRROR_VARIABLE} to another mirror."
    )


def _download(address: str, part: Path, wanted: Download) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "mpsfork", "Accept-Encoding": "identity"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(urllib.request.getproxies() | apt_proxies()))
    have = 0
    try:
        with (
            opener.open(request, timeout=TIMEOUT_SECONDS) as answer,
            part.open("wb") as stream,
            byte_progress() as progress,
        ):
            task = progress.add_task(wanted.name, total=wanted.size)
            while have <= wanted.size and (chunk := answer.read(_CHUNK)):
                have += stream.write(chunk)
                progress.update(task, completed=have)
    except urllib.error.HTTPError as problem:
        raise NotThere(f"HTTP {problem.code} {problem.reason}") from None
    except urllib.error.URLError as problem:
        raise NotThere(str(getattr(problem.reason, "strerror", None) or problem.reason)) from None
    except (TimeoutError, ConnectionError, http.client.HTTPException) as problem:
        raise NotThere(str(problem) or type(problem).__name__) from None
    if have < wanted.size:
        raise NotThere(f"the connection ended after {have} of {wanted.size} bytes")


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
