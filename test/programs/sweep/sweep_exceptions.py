"""Why eager does not run a case: the backend lacks it, the simulator does, or its validation refused it."""

import re
from collections.abc import Callable

EAGER_LACKS, SIMULATOR_LACKS, SIMULATOR_REFUSED = "eager_lacks", "simulator_lacks", "simulator_refused"
WITHOUT_EAGER = (EAGER_LACKS, SIMULATOR_LACKS, SIMULATOR_REFUSED)
# How the backend, or the operator on any device, says that it does not do this; the rest is told in its own words.
WORDS = {
    "no kernel for MPS": r"not currently implemented for the MPS|Could not run '|not implemented for the MPS",
    "data type": r"(?i)\b(data ?types?|dtypes?|scalar ?types?|bool|boolean|integer|integral|half|bfloat16|b?float16|float64"
    r"|double|complex\w*|u?int\d+|byte|char|short|int|long)\b",
    "not supported on MPS": r"(?i)\bMPS\b|not (?:yet )?(?:supported|implemented)|unsupported|NotImplementedError",
}


class NotReplayed(Exception):
    """Eager does not run the case on the device, or it cannot be captured."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


def first_line(text: str) -> str:
    """What a table has room for."""
    return text.strip().partition("\n")[0][:200]


def sort_exception(error: Exception, complaints: dict[str, int]) -> NotReplayed:
    """By what the simulator complained about while eager ran; without a complaint the exception is the backend's."""
    for complaint in sorted(complaints, key=lambda text: (not text.startswith("unsupported: "), text)):
        # What a command ran into is a sum that ATen's CPU kernels lack, or a fault of one of the backend's own kernels.
        lacks = complaint.startswith("unsupported: ") or (
            complaint.startswith("execution: ") and "kernel '" not in complaint
        )
        return NotReplayed(SIMULATOR_LACKS if lacks else SIMULATOR_REFUSED, first_line(complaint))
    text = first_line(str(error))
    reason = next((name for name, words in WORDS.items() if re.search(words, f"{type(error).__name__}: {text}")), "")
    return NotReplayed(EAGER_LACKS, reason or f"other: {type(error).__name__}: {text}")


def complaint_book() -> tuple[Callable[[], dict[str, int]], Callable[[], None]]:
    """Functions that return and forget the simulator's complaints; a device has none."""
    try:
        import mps_simulator

        if mps_simulator.is_installed():
            return mps_simulator.raised_errors, mps_simulator.forget_raised_errors
    except ImportError:
        pass
    return dict, lambda: None
