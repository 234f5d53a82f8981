"""Asking GitHub's API for the comments of an issue, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from fork_tool.common.errors import ForkToolError

API = "https://api.github.com"
_TIMEOUT_SECONDS = 30.0
# Retries after an error of GitHub or the network: waits of 0, 4 and 8 seconds.
_RETRY = Retry(3, backoff_factor=2, status_forcelist=range(500, 600), respect_retry_after_header=False)
_REASONS = {
    401: "GitHub does not know the token: it has run out or was copied in part. Make a new one.",
    403: "The token may not read public issues.",
    404: "It does not exist, or this token may not read it.",
}


class GitHub:
    """Reads with a token, which it keeps from other hosts."""

    def __init__(self, token: str, api: str = API) -> None:
        self._api = api.rstrip("/")
        self._session = requests.Session()
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=_RETRY))
        self._session.headers.update(
            {
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {token}",
                "User-Agent": "mpsfork",
                "X-GitHub-Api-Version": "2022-11-28",
            }
        )

    def comments(self, repository: str, issue: int) -> Iterator[list[Any]]:
        """The comments of an issue, a page at a time."""
        address: str | None = f"{self._api}/repos/{repository}/issues/{issue}/comments?per_page=100"
        while address:
            if urlsplit(address)[:2] != urlsplit(self._api)[:2]:
                # The session's token would go there.
                raise ForkToolError(f"The next page would be {address}, which is not asked: nothing was written.")
            try:
                answer = self._session.get(address, timeout=_TIMEOUT_SECONDS)
                page = answer.json() if answer.ok else []
            except requests.RequestException as problem:
                raise ForkToolError(
                    f"{address} gives no list of comments ({problem}): check the network, then run this again. "
                    "Nothing was written."
                ) from None
            if not answer.ok:
                said = f"GitHub answers {answer.status_code} {answer.reason}."
                reason = _limit(answer) or _REASONS.get(answer.status_code, said)
                raise ForkToolError(f"{address}: {reason} Nothing was written.")
            yield page
            address = answer.links.get("next", {}).get("url")


def _limit(answer: requests.Response) -> str:
    """When to come back if GitHub's rate limit is used up; empty if it is not."""
    after, reset = answer.headers.get("Retry-After"), answer.headers.get("X-RateLimit-Reset")
    if answer.status_code not in (403, 429) or "rate limit" not in answer.text.lower():
        return ""
    if after:
        again = f"in {after} s"
    else:
        again = f"at {datetime.fromtimestamp(int(reset)):%H:%M}" if reset else "in an hour"
    return f"GitHub's rate limit is used up: run this again {again}."
