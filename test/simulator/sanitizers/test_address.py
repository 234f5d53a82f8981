"""AddressSanitizer and UndefinedBehaviorSanitizer see what is planted, in each place that is instrumented."""

from __future__ import annotations

import pytest

from planted import run_case, STATUS


@pytest.mark.parametrize(
    ("case", "report", "place"),
    [
        ("planted_use_after_free", "AddressSanitizer: heap-use-after-free", "case_planted_use_after_free"),
        ("planted_heap_overflow", "AddressSanitizer: heap-buffer-overflow", "case_planted_heap_overflow"),
        ("planted_signed_overflow", "signed integer overflow: 2147483647 + 1", "case_planted_signed_overflow"),
        (
            "planted_use_of_freed_device_memory",
            "AddressSanitizer: SEGV",
            "case_planted_use_of_freed_device_memory",
        ),
        ("planted_device_memory_overflow", "AddressSanitizer: SEGV", "case_planted_device_memory_overflow"),
        ("planted_kernel_overflow", "AddressSanitizer: stack-buffer-overflow", "program_source:5"),
    ],
)
def test_planted_fault_is_reported(case: str, report: str, place: str) -> None:
    status, text = run_case(case)
    assert report in text
    assert place in text
    assert status == STATUS, text


def test_nothing_is_reported_without_a_fault() -> None:
    assert run_case("nothing_planted") == (0, "")
