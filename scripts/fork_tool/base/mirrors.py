"""Which Debian mirrors to ask: those that apt is set up with, then the public archives that base.toml names."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from fork_tool.common.console import note

MIRROR_VARIABLE = "MPSFORK_MIRROR"
ARCHIVES_VARIABLE = "MPSFORK_ARCHIVES"
_GENERIC_SUITES = {"stable", "testing", "unstable", "sid", "oldstable"}
# Also of sources whose lists were never fetched, as in a fresh container.
_SOURCES = ("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(RELEASE)")


def find_mirrors(releases: Iterable[str]) -> list[str]:
    """Base addresses of Debian archives, best first: the user's own, then what apt uses."""
    found: list[str] = []
    chosen = os.environ.get(MIRROR_VARIABLE) or os.environ.get("MIRROR")
    if chosen:
        found.append(chosen.rstrip("/"))
    suites = _GENERIC_SUITES | set(releases) | _codenames()
    security: list[str] = []
    for line in _ask_apt(*_SOURCES).splitlines():
        address, _, suite = line.partition(" ")
        if re.split(r"[-/]", suite)[0] not in suites:
            continue
        for base in _resolved(address.rstrip("/")):
            (security if "security" in suite else found).append(base)
            # A mirror of Ubuntu's often keeps Debian's archive next to it.
            if base.endswith("/ubuntu"):
                found.append(f"{base.removesuffix('/ubuntu')}/debian")
    return list(dict.fromkeys(found + security))


def public_archives(named: tuple[str, ...]) -> list[str]:
    """The archives to ask last: those of base.toml, or others, or none, as the user has set."""
    chosen = os.environ.get(ARCHIVES_VARIABLE)
    return [address.rstrip("/") for address in (named if chosen is None else chosen.split())]


def apt_proxies() -> dict[str, str]:
    """The proxies that apt is told to use."""
    proxies = {}
    for scheme in ("http", "https"):
        match = re.search(r"PROXY='([^']+)'", _ask_apt("apt-config", "shell", "PROXY", f"Acquire::{scheme}::Proxy"))
        if match and match[1] != "DIRECT":
            proxies[scheme] = match[1]
    return proxies


def _ask_apt(*command: str) -> str:
    """What a command of apt's prints; nothing where there is no apt."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    except OSError:
        return ""
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        note(f"apt does not say what it is set up with, and its mirrors are not asked: {' '.join(errors)}")
    return done.stdout


def _codenames() -> set[str]:
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return set()
    return {system[name] for name in ("VERSION_CODENAME", "UBUNTU_CODENAME") if name in system}


def _resolved(address: str) -> list[str]:
    """Web addresses that a source stands for; `mirror+file:` names a list of them, which apt does not show."""
    if address.startswith(("http://", "https://")):
        return [address]
    if not address.startswith("mirror+file:"):
        return []
    try:
        lines = Path(address.removeprefix("mirror+file:")).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.split()[0].rstrip("/") for line in lines if line.startswith(("http://", "https://"))]
