"""Asking GitHub's API for the comments of an issue: page by page, waiting for rate limits, and only with a token."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from fork_tool.common.console import say, seconds_progress
from fork_tool.common.errors import ForkToolError

API = "https://api.github.com"
TOKEN_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")
_TIMEOUT_SECONDS = 30.0
# Retries after an error of GitHub or the network: waits of 0, 4 and 8 seconds.
_RETRY = Retry(
    3, backoff_factor=2, status_forcelist=range(500, 600), respect_retry_after_header=False, raise_on_status=False
)


def token_of_environment() -> str:
    """The token; GitHub answers too few questions an hour without one."""
    for name in TOKEN_VARIABLES:
        token = os.environ.get(name, "").strip()
        if token:
            return token
    raise ForkToolError(
        f"There is no {' or '.join(TOKEN_VARIABLES)} in the environment: make a token at github.com/settings/tokens "
        "(it needs no rights, the issues are public), `export GH_TOKEN=…`, then run this again."
    )


class GitHub:
    """Reads and waits for rate limits; `longest_wait` bounds all its waiting for rate limits together."""

    def __init__(self, token: str, api: str = API, longest_wait: float = 900.0) -> None:
        self._api = api.rstrip("/")
        self._patience = longest_wait
        # It keeps the token from other hosts.
        self._session = requests.Session()
        self._session.mount("https://", HTTPAdapter(max_retries=_RETRY))
        self._session.mount("http://", HTTPAdapter(max_retries=_RETRY))
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
        asked = set()
        while address:
            asked.add(address)
            answer = self._get(address)
            page = None
            with contextlib.suppress(requests.JSONDecodeError):
                page = answer.json()
            if not isinstance(page, list):
                raise ForkToolError(f"{address} is no list of comments: has GitHub's API changed?")
            yield page
            address = answer.links.get("next", {}).get("url")
            # The session's token would go there.
            if address and (urlsplit(address)[:2] != urlsplit(self._api)[:2] or address in asked):
                raise ForkToolError(
                    f"The page after this one would be {address}, which is not asked: nothing was written."
                )

    def _get(self, address: str) -> requests.Response:
        limited = 0
        while True:
            try:
                answer = self._session.get(address, timeout=_TIMEOUT_SECONDS)
            except requests.RequestException as problem:
                raise ForkToolError(
                    f"{address} does not answer ({_reason(problem)}): check the network, then run this again. "
                    "Nothing was written."
                ) from None
            wait = _limit(answer, limited)
            if wait is None:
                _refuse(answer, address)
                return answer
            limited += 1
            self._wait(wait)

    def _wait(self, seconds: float) -> None:
        reason = "GitHub's rate limit is used up"
        if seconds > self._patience:
            raise ForkToolError(
                f"{reason}, and asking again makes sense in {seconds:.0f} s, which is longer than this waits "
                f"({self._patience:.0f} s more; --max-wait changes it). Nothing was written."
            )
        self._patience -= seconds
        say(f"{reason}: asking again in {seconds:.0f} s")
        with seconds_progress() as progress:
            task = progress.add_task("waiting", total=seconds)
            left = seconds
            while left > 0:
                time.sleep(min(left, 1.0))
                left -= 1.0
                progress.update(task, completed=seconds - max(left, 0.0))


def _limit(answer: requests.Response, before: int) -> float | None:
    """The wait that a rate limit asks for; None when there is none."""
    if answer.status_code not in (403, 429):
        return None
    after = _number(answer.headers.get("Retry-After"))
    if after is not None:
        return max(after, 1.0)
    if answer.headers.get("X-RateLimit-Remaining", "").strip() == "0":
        reset = _number(answer.headers.get("X-RateLimit-Reset"))
        return 60.0 if reset is None else max(reset - time.time() + 1.0, 1.0)
    # The secondary limit, without a header: a minute, and twice as long each time.
    return 60.0 * (1 << before) if "rate limit" in answer.text.lower() else None


def _refuse(answer: requests.Response, address: str) -> None:
    code = answer.status_code
    if code == 401:
        raise ForkToolError("GitHub does not know the token: it has run out or was copied in part; make a new one.")
    if code in (404, 410):
        raise ForkToolError(f"{address} does not exist, or this token may not read it.")
    if code in (403, 429):
        raise ForkToolError(f"GitHub refuses {address} (HTTP {code}): the token may not read public issues.")
    if code >= 500:
        raise ForkToolError(
            f"GitHub is out of order (HTTP {code} for {address}): run this again later. Nothing was written."
        )
    if code != 200:
        raise ForkToolError(f"GitHub answers HTTP {code} to {address}.")


def _reason(problem: BaseException) -> str:
    """What the operating system or the protocol said, without the layers above it."""
    while problem.__context__:
        problem = problem.__context__
    return str(problem) or type(problem).__name__


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
