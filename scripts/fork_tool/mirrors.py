"""Which Debian mirrors to ask: those that apt is set up with, then the public archives that base.toml names."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

MIRROR_VARIABLE = "MPSFORK_MIRROR"
ARCHIVES_VARIABLE = "MPSFORK_ARCHIVES"
_GENERIC_SUITES = {"stable", "testing", "unstable", "sid", "oldstable"}


def find_mirrors(releases: Iterable[str], etc: Path = Path("/etc")) -> list[str]:
    """Base addresses of Debian archives, best first: the user's own, then what apt uses."""
    found: list[str] = []
    chosen = os.environ.get(MIRROR_VARIABLE) or os.environ.get("MIRROR")
    if chosen:
        found.append(chosen.rstrip("/"))
    suites = _GENERIC_SUITES | set(releases) | _codename(etc)
    security: list[str] = []
    for address, suite in _sources(etc / "apt"):
        if re.split(r"[-/]", suite)[0] not in suites:
            continue
        for base in _resolved(address, etc):
            (security if "security" in suite else found).append(base)
            # A mirror of Ubuntu's often keeps Debian's archive next to it.
            parts = urlsplit(base)
            if parts.path.endswith("/ubuntu"):
                found.append(f"{base.removesuffix('/ubuntu')}/debian")
    return list(dict.fromkeys(found + security))


def public_archives(named: tuple[str, ...]) -> list[str]:
    """The archives to ask last: those of base.toml, or others, or none, as the user has set."""
    chosen = os.environ.get(ARCHIVES_VARIABLE)
    return [address.rstrip("/") for address in (named if chosen is None else chosen.split())]


def _codename(etc: Path) -> set[str]:
    try:
        text = (etc / "os-release").read_text("utf-8")
    except OSError:
        return set()
    return {match[1].strip('"') for match in re.finditer(r"^(?:VERSION|UBUNTU)_CODENAME=(.*)$", text, re.MULTILINE)}


def _sources(apt: Path) -> Iterator[tuple[str, str]]:
    """All (address, suite) pairs of apt's configuration, in its order."""
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if path.suffix == ".list":
            yield from _one_line_sources(text)
        elif path.suffix == ".sources":
            yield from _stanza_sources(text)


def _one_line_sources(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        match = re.match(r"\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)", line)
        if match:
            yield match[1], match[2]


def _stanza_sources(text: str) -> Iterator[tuple[str, str]]:
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, list[str]] = {}
        current = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t"):
                fields.get(current, []).extend(line.split())
                continue
            name, colon, value = line.partition(":")
            if colon:
                current = name.strip().lower()
                fields[current] = value.split()
        if fields.get("enabled", ["yes"])[0].lower() in ("no", "false", "0", "off"):
            continue
        for address in fields.get("uris", []):
            for suite in fields.get("suites", []):
                yield address, suite


def _resolved(address: str, etc: Path) -> Iterator[str]:
    """Web addresses that a source stands for (`mirror+file:` names a list of them)."""
    if address.startswith(("http://", "https://")):
        yield address.rstrip("/")
    elif address.startswith("mirror+file:"):
        path = Path(address.removeprefix("mirror+file:"))
        if path.is_relative_to("/etc"):
            path = etc / path.relative_to("/etc")
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return
        for line in lines:
            if line.startswith(("http://", "https://")):
                yield line.split()[0].rstrip("/")


def apt_proxies() -> dict[str, str]:
    """The proxies that apt is told to use."""
    proxies = {}
    for scheme in ("http", "https"):
        try:
            done = subprocess.run(
                ["apt-config", "shell", "PROXY", f"Acquire::{scheme}::Proxy"],
                capture_output=True,
                text=True,
                check=False,
                start_new_session=True,
            )
        except OSError:
            return {}
        match = re.search(r"PROXY='([^']+)'", done.stdout)
        if match and match[1] != "DIRECT":
            proxies[scheme] = match[1]
    return proxies
