"""Every message of the overlay stands word for word in its test of messages, or here with the reason why it cannot."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OVERLAY = ROOT / "aten_mps_overlay"
# The second reads a log, since a C API has codes only.
MESSAGES = tuple(
    OVERLAY / "test" / f"test_mps_{name}.py"
    for name in ("graph_errors", "graph_ahead", "aoti_shim", "graph_compile", "graph_hooks")
)

# Where C++ says something to the user. The words follow as string literals, with values between them.
CALL = re.compile(
    r"\b(?:TORCH_CHECK(?:_VALUE|_TYPE)?|TORCH_WARN|assertNotCapturing|assertNotDrawnInCapture|raiseInCapture|refuse)\s*\(|refusal_? =\s|error =\s"
)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What no program brings about here.
NOT_SHOWN = {
    "out of memory for the": "a few bytes for which Metal has no memory",
    "torch.mps graph replay: out of memory": "the same",
    "an MPSGraphExecutable committed work": "only executables that may commit do: the mutant ahead-executables-commit",
    "Move the operator out of the capture.": "no operator of the base fails to compile; mps_test_recording.mm does",
    "could not be ended while its graph was destroyed": "ending a capture does not fail on the simulator",
    "', which a graph does not record": "no operator does; test_encoder_state.py does without one",
    "random numbers were drawn in a way that a replay can't repeat": "no operator of the base draws so",
    "a generator was given an earlier offset": "the base's Python cannot set one; mps_test_drawn_bytes.mm does",
    "the offset of a generator advanced": "the base's Python cannot set one; mps_test_drawn_bytes.mm does",
    "is computed on the CPU": "torch.compile runs such a function eagerly",
    "Events were not created with argument 'enable_timing=True'": "the case in test_mps.py knows a part of it",
    "a Metal capture was started": "Metal captures need an environment variable from the start",
}


def texts_of_messages() -> str:
    """All strings of the test files, with single blanks."""
    nodes = [node for file in MESSAGES for node in ast.walk(ast.parse(file.read_text()))]
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return " ".join(" ".join(strings).split())


def in_c_plus_plus(text: str) -> list[str]:
    """The longest run of words of each message in a C++ source."""
    result = []
    for call in CALL.finditer(text):
        statement = text[call.start() : text.index(";", call.start())]
        # neighbours are one literal; what stands between others is a value
        joined = re.sub(r'"\s*\n\s*"', "", statement)
        words = [found.replace('\\"', '"') for found in LITERAL.findall(joined)]
        if words:
            result.append(max(words, key=len).strip())
    return result


def in_python(text: str) -> list[str]:
    """The longest run of words of each exception that a Python source raises."""
    result = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            strings = [
                part.value
                for part in ast.walk(node.exc.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            if strings:
                result.append(max(strings, key=len).strip())
    return result


def changed_lines(patch: Path, sign: str) -> list[str]:
    """What a patch adds (+) or removes (-): the base's own messages are left out."""
    return [
        line[1:] for line in patch.read_text().splitlines() if line.startswith(sign) and not line.startswith(sign * 3)
    ]


PATCHES = sorted((ROOT / "patches").glob("*.patch"))
# Later patches accept what earlier ones refused.
TAKEN_BACK = {line for patch in PATCHES for line in changed_lines(patch, "-")}
SOURCES = {
    **{str(p.relative_to(OVERLAY)): in_c_plus_plus(p.read_text()) for p in OVERLAY.rglob("*.mm")},
    **{str(p.relative_to(OVERLAY)): in_c_plus_plus(p.read_text()) for p in OVERLAY.rglob("*.cpp")},
    **{str(p.relative_to(OVERLAY)): in_python(p.read_text()) for p in (OVERLAY / "torch").rglob("*.py")},
    **{
        p.name: in_c_plus_plus("\n".join(line for line in changed_lines(p, "+") if line not in TAKEN_BACK))
        for p in PATCHES
    },
}


@pytest.mark.parametrize("source", [name for name, messages in SOURCES.items() if messages])
def test_messages_are_tested_word_for_word(source: str) -> None:
    known = texts_of_messages()
    missing = [
        words for words in SOURCES[source] if words not in known and not any(part in words for part in NOT_SHOWN)
    ]
    assert missing == []


def test_reasons_are_needed() -> None:
    everything = " ".join(words for messages in SOURCES.values() for words in messages)
    assert [part for part in NOT_SHOWN if part not in everything] == []
