"""ThreadSanitizer sees what is planted."""

from __future__ import annotations

from planted import run_case, STATUS


def test_planted_race_is_reported() -> None:
    status, text = run_case("planted_data_race")
    assert "ThreadSanitizer: data race" in text
    assert "sanitizer_cases.mm" in text
    assert status == STATUS, text


def test_nothing_is_reported_without_a_fault() -> None:
    assert run_case("nothing_planted") == (0, "")
