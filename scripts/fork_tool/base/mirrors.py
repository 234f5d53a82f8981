"""Which Debian mirrors to ask: those that apt is set up with, then the public archives that base.toml names."""

import os
import re
import subprocess

from fork_tool.common.console import note

MIRROR_VARIABLE = "MPSFORK_MIRROR"
ARCHIVES_VARIABLE = "MPSFORK_ARCHIVES"
# Also of sources whose lists were never fetched, as in a fresh container.
_SOURCES = ("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)")


def find_mirrors() -> list[str]:
    """Base addresses of Debian archives, best first: the user's own, then what apt uses."""
    chosen = os.environ.get(MIRROR_VARIABLE) or os.environ.get("MIRROR")
    found = [*([chosen] if chosen else []), *_ask_apt(*_SOURCES).split()]
    # A source that stands for a list of mirrors (`mirror+file:`) has no address that can be asked.
    return list(dict.fromkeys(address.rstrip("/") for address in found if address.startswith(("http://", "https://"))))


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
