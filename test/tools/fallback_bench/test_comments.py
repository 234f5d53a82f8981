"""What comments ask for, however they are written."""

from __future__ import annotations

from typing import Any

import pytest

from fallback_bench.comments import operators_in, read_comment

MISSING = "The operator 'aten::{}' is not currently implemented for the MPS device."


@pytest.mark.parametrize(
    ("body", "operators"),
    [
        ("Please add `aten::linalg_qr.out`!", ["aten::linalg_qr"]),
        ("aten::mode, aten::angle and aten::mode", ["aten::mode", "aten::angle"]),
        ("nothing here", []),
        ("", []),
        ("aten:: and aten::", []),
        ("torch.mode and at::mode", []),
        (f"```\n{MISSING.format('mode')}\n```", ["aten::mode"]),
        (f"```python\nlog of aten::add and aten::mul\n{MISSING.format('mode')}\n```", ["aten::mode"]),
        ("```\naten::add aten::mul\n```", []),
        ("The operator 'aten::angle' is not current implemented for MPS", ["aten::angle"]),
        (f"~~~~\n~~~\n{MISSING.format('mode')}\naten::add\n~~~~\naten::angle", ["aten::angle", "aten::mode"]),
        ("- linalg\n    - aten::mode", ["aten::mode"]),
        ("```\nan unclosed block\naten::add", []),
        ("    an indented block with aten::add", []),
        ("> aten::mode\n\nSo do I.", []),
        ("> aten::mode\n\nSo do I: aten::mode.", ["aten::mode"]),
        ("operator ‘**aten::_upsample_bicubic2d_aa.out**’ is missing", ["aten::_upsample_bicubic2d_aa"]),
        ("\x00\ufffd aten::mode\r\n", ["aten::mode"]),
    ],
)
def test_operators_in(body: str, operators: list[str]) -> None:
    assert operators_in(body) == operators


def comment(**replaced: Any) -> dict[str, Any]:
    content = {
        "html_url": "https://github.com/pytorch/pytorch/issues/77764#issuecomment-1",
        "body": "aten::mode",
        "user": {"login": "ada"},
        "author_association": "NONE",
        "reactions": {"+1": 4},
    }
    return content | replaced


def test_a_comment() -> None:
    read = read_comment(comment())
    assert read is not None
    assert (read.author, read.votes, read.operators) == ("ada", 5, ("aten::mode",))


@pytest.mark.parametrize(
    "content",
    [
        None,
        "text",
        [],
        {},
        comment(body=None),
        comment(body=7),
        comment(html_url=None),
        comment(body="nothing"),
        comment(author_association="MEMBER"),
    ],
)
def test_what_is_no_request(content: Any) -> None:
    assert read_comment(content) is None


@pytest.mark.parametrize("reactions", [None, 3, {}, {"+1": None}, {"+1": "many"}, {"+1": -2}])
def test_reactions_that_are_none(reactions: Any) -> None:
    read = read_comment(comment(reactions=reactions))
    assert read is not None and read.votes == 1


@pytest.mark.parametrize("user", [None, "ada", {}, {"login": None}])
def test_an_author_who_is_gone(user: Any) -> None:
    read = read_comment(comment(user=user))
    assert read is not None and read.author == read.link
