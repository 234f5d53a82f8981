"""`verify`: a test plan names tests that are there when the entry is reviewed, not later."""

from __future__ import annotations

from pathlib import Path

import pytest

from workshop import HUNK, UPSTREAM, Workshop

OLD_TEST, NEW_TEST, PROGRAM = "test/test_mps.py", "test/test_mps_new.py", "aten/src/ATen/test/mps_test_new.mm"


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """An upstream that has a test."""
    files: dict[str, str | bytes] = {**UPSTREAM, OLD_TEST: "class TestMPS(TestCase):\n    pass\n"}
    return Workshop(tmp_path / "repository", files)


def series(shop: Workshop, plan: str) -> None:
    """An entry with this plan, and a later one that brings tests."""
    shop.entry("first", f"[MPS] First\n\nWhy.\n\nTest Plan: {plan}\n\n{HUNK}")
    shop.overlay(NEW_TEST, "class TestNew(TestCase):\n    pass\n")
    shop.overlay(PROGRAM, "TEST(New, Works) {}\n")
    shop.entry(
        "second",
        f"[MPS] Second\n\nWhy.\n\nTest Plan: `python {NEW_TEST} TestNew.test_it`, `build/bin/mps_test_new`\n\n"
        f"Overlay:\n  {PROGRAM}\n  {NEW_TEST}\n",
    )


@pytest.mark.parametrize("plan", ["ran it", "`pytest -k it`", f"`python {OLD_TEST} TestMPS.test_add`"])
def test_plans_that_can_be_followed(shop: Workshop, plan: str) -> None:
    series(shop, plan)
    shop.good("verify")


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (f"`python {NEW_TEST}`", f"runs {NEW_TEST}, which is not there before a later entry"),
        ("`build/bin/mps_test_new`", "runs build/bin/mps_test_new, whose source is not there before a later entry"),
        (f"`python {OLD_TEST} TestGone`", f"runs TestGone of {OLD_TEST}, which has no such class"),
    ],
)
def test_plans_that_need_a_later_entry(shop: Workshop, plan: str, problem: str) -> None:
    series(shop, plan)
    result = shop.run("verify")
    assert result.exception is not None
    assert f"first: its test plan {problem}" in result.stderr
