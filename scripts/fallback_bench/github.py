"""Asking GitHub's API for the comments of an issue: page by page, patient, and only with a token."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from fork_tool.console import say, seconds_progress
from fork_tool.errors import ForkToolError

API = "https://api.github.com"
TOKEN_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")
_TIMEOUT_SECONDS = 30.0
_ATTEMPTS = 4
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="next"')


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


class _Elsewhere(Exception):
    """An answer leads to another host, to which the token must not go."""


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the API only: urllib would send the token along."""

    def redirect_request(self, request: Any, answer: Any, code: int, reason: str, headers: Any, address: str) -> Any:
        if urlsplit(address)[:2] != urlsplit(request.full_url)[:2]:
            raise _Elsewhere(address)
        return super().redirect_request(request, answer, code, reason, headers, address)


class GitHub:
    """A patient reader; `longest_wait` bounds all its waiting together."""

    def __init__(
        self,
        token: str,
        api: str = API,
        longest_wait: float = 900.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._token = token
        self._api = api.rstrip("/")
        self._patience = longest_wait
        self._sleep = sleep
        self._clock = clock
        self._opener = urllib.request.build_opener(_SameHost)

    def comments(self, repository: str, issue: int) -> Iterator[list[Any]]:
        """The comments of an issue, a page at a time."""
        address: str | None = f"{self._api}/repos/{repository}/issues/{issue}/comments?per_page=100"
        asked = set()
        while address:
            asked.add(address)
            page, headers = self._get(address)
            if not isinstance(page, list):
                raise ForkToolError(f"{address} is no list of comments: has GitHub's API changed?")
            yield page
            match = _NEXT.search(headers.get("Link", ""))
            address = match[1] if match else None
            if address and (urlsplit(address)[:2] != urlsplit(self._api)[:2] or address in asked):
                raise ForkToolError(
                    f"The page after this one would be {address}, which is not asked: nothing was written."
                )

    def _get(self, address: str) -> tuple[Any, Message]:
        attempt = 0
        while True:
            attempt += 1
            request = urllib.request.Request(
                address,
                headers={
                    "Accept": "application/vnd.github+json",
                    "Authorization": f"Bearer {self._token}",
                    "User-Agent": "mpsfork",
                    "X-GitHub-Api-Version": "2022-11-28",
                },
            )
            try:
                with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                    return json.loads(answer.read()), answer.headers
            except urllib.error.HTTPError as problem:
                with problem:
                    body = problem.read(2000).decode("utf-8", "replace")
                wait, reason = self._judge(problem.code, problem.headers, body, address, attempt)
            except _Elsewhere as problem:
                raise ForkToolError(
                    f"GitHub sends {address} on to {problem}, which is not asked with a token."
                ) from None
            except (OSError, http.client.HTTPException, ValueError) as problem:
                # An answer that was cut off is no JSON either.
                reason = str(getattr(problem, "reason", None) or problem) or type(problem).__name__
                wait = self._again(
                    attempt, f"{address} does not answer ({reason}): check the network, then run this again."
                )
            self._wait(wait, reason)

    def _judge(self, code: int, headers: Message, body: str, address: str, attempt: int) -> tuple[float, str]:
        """How long to wait before asking again, and why; raises when asking again is of no use."""
        if code == 401:
            raise ForkToolError("GitHub does not know the token: it has run out or was copied in part; make a new one.")
        if code in (404, 410):
            raise ForkToolError(f"{address} is not there, or not to be seen with this token.")
        if code in (403, 429):
            limited = self._limit(headers, body, attempt)
            if limited is None:
                raise ForkToolError(f"GitHub refuses {address} (HTTP {code}): the token may not read public issues.")
            return limited, "GitHub's rate limit is used up"
        if code >= 500:
            sentence = f"GitHub is out of order (HTTP {code} for {address}): run this again later."
            return self._again(attempt, sentence), f"HTTP {code}"
        raise ForkToolError(f"GitHub answers HTTP {code} to {address}.")

    def _limit(self, headers: Message, body: str, attempt: int) -> float | None:
        """The wait that a rate limit asks for; None when it is none."""
        after = _number(headers.get("Retry-After"))
        if after is not None:
            return max(after, 1.0)
        if headers.get("X-RateLimit-Remaining", "").strip() == "0":
            reset = _number(headers.get("X-RateLimit-Reset"))
            return 60.0 if reset is None else max(reset - self._clock() + 1.0, 1.0)
        if "rate limit" in body.lower():
            # The secondary limit, without a header: a minute, and twice as long each time.
            return 60.0 * (1 << (attempt - 1))
        return None

    def _again(self, attempt: int, sentence: str) -> float:
        if attempt >= _ATTEMPTS:
            raise ForkToolError(f"{sentence} Nothing was written.")
        return float(2**attempt)

    def _wait(self, seconds: float, reason: str) -> None:
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
                self._sleep(min(left, 1.0))
                left -= 1.0
                progress.update(task, completed=seconds - max(left, 0.0))


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
