"""Which uses of newer API stand behind a check of the version, by the text of the sources.

A use is guarded if a block around it is entered only on that version: the branch of an `if` that asks for it, the
`else` of one that asks for the opposite, the operand of a `?`. What follows a check that leaves the function on older
systems is guarded too. Guards in callers are not found here: facts/lists.toml lists them, each with the text that is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apple_facts import Version
from apple_uses import without_comments

# Functions of the backend that ask for a version.
_FUNCTIONS = {"supportsComplex()": (14, 0), "checkSupportsBFloat16()": (14, 0), "checkSupportsComplex()": (14, 0)}
_ASKS = re.compile(
    r"is_macos_13_or_newer\(\s*(?:\w+::)*MACOS_VER_(\d+)_(\d+)_PLUS\s*\)"
    r"|is_macOS_(\d+)_(\d+)_or_newer\b"
    r"|@available\(\s*macOS\s+(\d+)\.(\d+)[^)]*\)"
)
_LEAVES = re.compile(r"\b(?:return|throw)\b|TORCH_CHECK\w*\s*\(\s*false")


@dataclass(frozen=True)
class Use:
    """A name that newer systems have, where it stands, and the version that the text around it makes sure of."""

    name: str
    line: int
    guard: Version
    function: str


@dataclass
class _Block:
    opened: int
    header: str
    # What is sure inside: from its own header, and from checks that left the function before.
    sure: Version
    # What is sure in the `else` that may follow.
    otherwise: Version


def find(text: str, names: dict[str, re.Pattern[str]]) -> list[Use]:
    """Return the uses of names, each by its pattern, in a source."""
    plain = without_comments(text)
    wanted = sorted((match.start(), name) for name, pattern in names.items() for match in pattern.finditer(plain))
    uses: list[Use] = []
    blocks: list[_Block] = [_Block(0, "", (), ())]
    start = 0
    after_else: Version = ()
    position = 0
    for match in re.finditer(r"[{};]", plain):
        while position < len(wanted) and wanted[position][0] < match.start():
            at, name = wanted[position]
            position += 1
            statement = plain[start:at]
            sure = max([block.sure for block in blocks] + [_sure(_condition(statement), True), _ternary(statement)])
            uses.append(Use(name, plain.count("\n", 0, at) + 1, sure, _function(blocks)))
        if match.group() == "{":
            header = plain[start : match.start()]
            condition = _condition(header)
            sure = max(_sure(condition, True), after_else if re.search(r"\belse\b", header) else ())
            blocks.append(_Block(match.end(), header, sure, _sure(condition, False)))
            after_else = ()
        elif match.group() == "}" and len(blocks) > 1:
            block = blocks.pop()
            after_else = block.otherwise
            if block.otherwise and _LEAVES.search(plain[block.opened : match.start()]):
                # What follows runs only if that block was not entered.
                blocks[-1].sure = max(blocks[-1].sure, block.otherwise)
        else:
            statement = plain[start : match.start()]
            checked = re.search(r"TORCH_CHECK\w*\s*\(\s*([^,]*),|\b(checkSupports\w+\(\))", statement)
            if checked:
                blocks[-1].sure = max(blocks[-1].sure, _sure(checked.group(1) or checked.group(2), True))
        start = match.end()
    return uses


def _condition(header: str) -> str:
    """The condition of the `if` that a header ends with; empty for other headers."""
    found = re.search(r"\bif\s*(?:constexpr\s*)?\((.*)\)\s*$", header, re.S)
    return found.group(1) if found else ""


def _sure(condition: str, holds: bool) -> Version:
    """What version is sure when a condition holds, or when it does not."""
    joined, apart = ("&&", "||") if holds else ("||", "&&")
    if not condition or len(_split(condition, apart)) > 1:
        # Of alternatives nothing is sure, and a mix of both without parentheses is not taken apart.
        return ()
    return max((_asked(part.strip(), holds) for part in _split(condition, joined)), default=())


def _asked(text: str, holds: bool) -> Version:
    negated = text.startswith("!")
    text = text.removeprefix("!").strip()
    if text.startswith("(") and len(_split(text, ")")) == 2 and text.endswith(")"):
        return _sure(text[1:-1], holds != negated)
    if negated == holds:
        return ()
    name = re.sub(r"^(?:\w+::)+", "", text)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    found = _ASKS.fullmatch(name)
    return tuple(int(number) for number in found.groups() if number) if found else ()


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark outside parentheses; a closing one itself counts when it closes the first."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text.startswith(mark, at):
            parts.append(text[start:at])
            start = at + len(mark)
    return [*parts, text[start:]]


def _ternary(statement: str) -> Version:
    """What is sure after `guard ?` and before its colon."""
    head, mark, rest = statement.rpartition("?")
    if not mark or re.search(r"[^:]:[^:]", rest):
        return ()
    asked = list(_ASKS.finditer(head))
    if not asked or head[asked[-1].end() :].strip():
        return ()
    return tuple(int(number) for number in asked[-1].groups() if number)


def _function(blocks: list[_Block]) -> str:
    """The function that the blocks are in, as far as its header tells."""
    for block in blocks[1:]:
        if re.search(r"\b(?:namespace|extern|struct|class|enum)\b", block.header) and "(" not in block.header:
            continue
        found = re.search(r"(\w+)\s*\)?\s*\([^{}]*\)[^(){}]*$", block.header.split(") :")[0], re.S)
        names = re.findall(r"(\w+)\s*\(", block.header)
        return names[0] if names else (found.group(1) if found else "")
    return ""
