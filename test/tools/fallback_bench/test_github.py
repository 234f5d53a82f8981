"""Paging and failures of GitHub's API, against recorded answers."""

from datetime import datetime
from typing import Any

import pytest

from fallback_bench.github import GitHub
from fork_tool.common.errors import ForkToolError
from recorded_github import Answer, comments_of, page, recorded

FIRST, SECOND = comments_of(77764), comments_of(77764, 2)
TWO_PAGES = {FIRST: [page("77764-1", SECOND)], SECOND: [page("77764-2")]}


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits, which take no time."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    return seconds


def read(api: str) -> list[Any]:
    return [comment for one in GitHub("a-token", api).comments("pytorch/pytorch", 77764) for comment in one]


def test_pages_are_followed_and_the_token_is_sent(slept: list[float]) -> None:
    with recorded(dict(TWO_PAGES)) as server:
        assert len(read(server.api)) == 11
    assert server.asked == [FIRST, SECOND] and slept == []
    assert server.tokens == {"Bearer a-token"}


def test_an_error_of_github_is_tried_again(slept: list[float]) -> None:
    answers = [Answer(status=503), Answer(status=500), page("77764-1", SECOND)]
    with recorded({**TWO_PAGES, FIRST: answers}) as server:
        assert len(read(server.api)) == 11
    assert sum(slept) == 4


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(status=401), "does not know the token"),
        (Answer("forbidden", 403, {"X-RateLimit-Remaining": "42"}), "may not read public issues"),
        (Answer("limit", 403, {"X-RateLimit-Reset": "1000000"}), f"again at {datetime.fromtimestamp(1e6):%H:%M}"),
        (Answer("limit", 429, {"Retry-After": "7"}), "rate limit is used up: run this again in 7 s"),
        (Answer("limit", 429), "run this again in an hour"),
        (Answer(status=404), "does not exist"),
        (Answer(status=418), "GitHub answers 418"),
        (Answer(status=500), "too many 500 error responses"),
        (Answer(), "gives no list of comments"),
        (
            Answer("77764-1", headers={"Link": '<http://elsewhere.invalid/>; rel="next"'}),
            "invalid/, which is not asked",
        ),
    ],
)
def test_what_fails_is_told(answer: Answer, sentence: str) -> None:
    with recorded({FIRST: [answer]}) as server, pytest.raises(ForkToolError, match=sentence) as caught:
        read(server.api)
    assert "othing was written." in str(caught.value)


def test_the_token_stays_with_the_api() -> None:
    """A redirect within the API is followed with it, one to another host without."""
    with recorded({"/comments": [page("77764-1")]}) as other:
        moved = Answer(status=302, headers={"Location": f"http://localhost:{other.server_port}/comments"})
        with recorded({FIRST: [Answer(status=301, headers={"Location": "{api}/moved"})], "/moved": [moved]}) as server:
            assert len(read(server.api)) == 5
    assert server.asked == [FIRST, "/moved"] and server.tokens == {"Bearer a-token"}
    assert other.tokens == {None}


def test_no_connection(slept: list[float]) -> None:
    with pytest.raises(ForkToolError, match=r"refused.*: check the network"):
        read("http://127.0.0.1:9")
    assert sum(slept) == 12
