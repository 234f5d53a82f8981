"""Paging, rate limits and failures of GitHub's API, against recorded answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fallback_bench import github as github_module
from fallback_bench.github import GitHub, token_of_environment
from fork_tool.common.errors import ForkToolError
from recorded_github import Answer, comments_of, page, recorded, RecordedGitHub

FIRST, SECOND = comments_of(77764), comments_of(77764, 2)
TWO_PAGES = {FIRST: [page("77764-1", SECOND)], SECOND: [page("77764-2")]}
NOW = 1_000_000.0
Limits = dict[str, str]


def read(server: RecordedGitHub, longest_wait: float = 900.0) -> tuple[list[Any], float]:
    """All comments of an issue, and how long the reader slept."""
    slept: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", slept.append)
        patch.setattr("time.time", lambda: NOW)
        github = GitHub("a-token", server.api, longest_wait)
        comments = [comment for one in github.comments("pytorch/pytorch", 77764) for comment in one]
    return comments, sum(slept)


def failure(answers: list[Answer], longest_wait: float = 900.0) -> str:
    """What the reader says when the first page is answered like this."""
    with recorded({FIRST: answers}) as server, pytest.raises(ForkToolError) as caught:
        read(server, longest_wait)
    return str(caught.value)


def test_pages_are_followed_and_the_token_is_sent() -> None:
    with recorded(dict(TWO_PAGES)) as server:
        comments, slept = read(server)
    assert (len(comments), slept) == (12, 0)
    assert server.asked == [FIRST, SECOND]
    assert server.tokens == {"Bearer a-token"}


def limit(file: str, status: int, headers: Limits) -> list[Answer]:
    return [Answer(file, status, headers), page("77764-1", SECOND)]


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [
        (limit("limit", 403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 40)}), 41),
        (limit("limit", 429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "long ago"}), 60),
        (limit("limit", 403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "5"}), 1),
        (limit("secondary", 403, {"Retry-After": "7"}), 7),
        (limit("secondary", 429, {"Retry-After": "0", "X-RateLimit-Remaining": "0"}), 1),
        (limit("secondary", 403, {"X-RateLimit-Remaining": "42"}), 60),
        (limit("", 502, {}), 0),
        ([Answer(status=503), Answer(status=500), page("77764-1", SECOND)], 4),
    ],
)
def test_asks_again_after_the_wait_that_the_answer_calls_for(answers: list[Answer], seconds: float) -> None:
    with recorded({**TWO_PAGES, FIRST: answers}) as server:
        comments, slept = read(server)
    assert len(comments) == 12
    assert slept == pytest.approx(seconds)


def test_waiting_says_what_for(capsys: pytest.CaptureFixture[str]) -> None:
    with recorded({**TWO_PAGES, FIRST: limit("secondary", 429, {"Retry-After": "7"})}) as server:
        read(server)
    assert "GitHub's rate limit is used up: asking again in 7 s" in capsys.readouterr().out


def test_waiting_is_bounded() -> None:
    far = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 3000)}
    assert re.search(r"in 3001 s, which is longer than this waits \(900 s", failure([Answer("limit", 403, far)]))
    # All waits together, not each.
    often = failure([*[Answer("secondary", 429, {"Retry-After": "30"})] * 5, page("77764-1")], longest_wait=100.0)
    assert "10 s more" in often


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(status=401), "does not know the token"),
        (Answer("forbidden", 403, {"X-RateLimit-Remaining": "42"}), "may not read public issues"),
        (Answer(status=404), "does not exist"),
        (Answer(status=410), "does not exist"),
        (Answer(status=418), "answers HTTP 418"),
        (Answer(status=500), "out of order .HTTP 500"),
        (Answer(body=b'{"message": "hello"}'), "is no list of comments"),
        (Answer(body=b"no json"), "is no list of comments"),
        (Answer(body=b"[{", promised=50), r"does not answer \(.*2 bytes read, 48 more expected"),
        (
            Answer("77764-1", headers={"Link": '<http://elsewhere.invalid/>; rel="next"'}),
            "elsewhere.invalid/, which is not",
        ),
        (page("77764-1", FIRST), "which is not asked"),
    ],
)
def test_what_waiting_does_not_fix(answer: Answer, sentence: str) -> None:
    assert re.search(sentence, failure([answer]))


def test_a_redirect_within_the_api_is_followed() -> None:
    moved = Answer(status=301, headers={"Location": "{api}/repositories/1/comments"})
    with recorded({FIRST: [moved], "/repositories/1/comments": [page("77764-1")]}) as server:
        assert len(read(server)[0]) == 5


def test_the_token_stays_with_the_api() -> None:
    with recorded({"/comments": [page("77764-1")]}) as other:
        moved = Answer(status=302, headers={"Location": f"http://localhost:{other.server_port}/comments"})
        with recorded({FIRST: [moved]}) as server:
            assert len(read(server)[0]) == 5
    assert server.tokens == {"Bearer a-token"}
    assert other.tokens == {None}


def test_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    github = GitHub("a-token", "http://127.0.0.1:9")
    with pytest.raises(ForkToolError, match=r"does not answer \(.*refused\): check the network.*Nothing was written"):
        list(github.comments("pytorch/pytorch", 1))
    assert sum(slept) == 12


@pytest.mark.parametrize("answer", [Answer(status=500), Answer(status=429, headers={"Retry-After": "7"})])
def test_ctrl_c_ends_a_wait(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(github_module.time, "sleep", strike)
    with recorded({FIRST: [answer]}) as server, pytest.raises(KeyboardInterrupt):
        list(GitHub("a-token", server.api).comments("pytorch/pytorch", 77764))


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("name", ["GH_TOKEN", "GITHUB_TOKEN"])
def test_token_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, " abc ")
    assert token_of_environment() == "abc"


@pytest.mark.usefixtures("clean")
def test_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", " ")
    with pytest.raises(ForkToolError, match=r"There is no GH_TOKEN or GITHUB_TOKEN in the environment: make a token"):
        token_of_environment()


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in github_module.TOKEN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
