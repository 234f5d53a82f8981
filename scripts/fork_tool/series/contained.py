"""Whether a patch declares only names that it uses itself, that an earlier patch uses, or that a test uses by then.

The series' own lines are read as words, not parsed: a name counts as used when it stands on one of these lines other
than its declaration, its definition, an import or a comment.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from fork_tool.common.git import Git
from fork_tool.series.diffs import FileDiff
from fork_tool.series.overlay import TESTS

_WORD = re.compile(r"[A-Za-z_]\w+")
_STRING = re.compile(r'(f?)"((?:[^"\\]|\\.)*)"')
_BRACES = re.compile(r"\{([^}]*)\}")
# Where upstream's code calls members of the backend, which a patch may override or replace.
_CALLERS = (
    "aten/src/ATen/mps",
    "aten/src/ATen/native/mps",
    "aten/src/ATen/detail",
    "c10/core",
    "torch/csrc/mps",
    "torch/mps",
)
_NO_TYPE = {"return", "else", "throw", "new", "delete", "case", "using", "goto", "friend", "operator", "co_return"}

_C_TYPE = re.compile(
    r"^\s*(?:enum\s+(?:class|struct)|class|struct|enum|union)\s+(?:TORCH_API\s+|C10_API\s+)?(\w+)(?!.*;\s*$)"
)
_C_FORWARD = re.compile(r"^\s*(?:class|struct|@class|@protocol)\s[^{]*;\s*$")
_C_FUNCTION = re.compile(r"^\s*(?P<type>\w[\w:<>,&*\s]*[\s&*>])(?P<name>\w+)\(")
_C_DEFINITION = re.compile(r"^\w[\w:<>,&*\s]*?(?:\w+::)*~?(\w+)\([^;]*$")
_C_MEMBER = re.compile(r"^\s*(?P<type>[\w:][\w:<>,&*\s]*[\s&*>])(?P<name>\w+)(?: = [^;()]*|\{[^;]*\})?;\s*$")
_C_ENUMERATOR = re.compile(r"^\s+([A-Z][A-Z_]+),?\s*$")
_C_METHOD = re.compile(r"^[-+] \(")
_BINDING = re.compile(r'(?:\bdef(?:_\w+)?\(|\{)\s*"(\w+)"')
_PYTHON = re.compile(r"^(?:\s*(?:async )?def (\w+)|class (\w+)|([A-Za-z_]\w*)(?:: [^=]+)? = )")
_PYTHON_NO_USE = re.compile(r"^\s*(?:from|import)\s|^\s+\w+(?: as \w+)?,?$")


@dataclass
class Names:
    """The names that a line declares, and the words that it uses."""

    declared: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)


def names_of_line(path: str, line: str) -> Names:
    suffix = PurePosixPath(path.removesuffix(".in")).suffix
    if path.startswith(TESTS):
        # A test may run a program that it has as a string.
        return Names(used=_WORD.findall(line))
    if suffix in (".py", ".pyi"):
        return _python_names(line.split("#", 1)[0], suffix)
    if suffix in (".h", ".mm", ".cpp"):
        return _c_names(line.split("//", 1)[0], suffix)
    return Names()


def _python_names(line: str, suffix: str) -> Names:
    match = _PYTHON.match(line)
    declared = [name for name in match.groups() if name] if match else []
    words = [] if suffix == ".pyi" or _PYTHON_NO_USE.match(line) else _WORD.findall(_without_strings(line))
    return Names([name for name in declared if not name.startswith("__")], _without(words, declared))


def _c_names(line: str, suffix: str) -> Names:
    declared = [name for name in _BINDING.findall(line) if not name.startswith("__")]
    line = _without_strings(line)
    if _C_FORWARD.match(line) or _C_METHOD.match(line):
        return Names(declared)
    own: list[str] = []
    if match := _C_TYPE.match(line) or _C_ENUMERATOR.match(line):
        own = [match[1]]
    elif suffix == ".h":
        match = _C_FUNCTION.match(line) or _C_MEMBER.match(line)
        # The compiler warns of a private member that nobody uses.
        is_name = match and not match["name"].endswith("_") and not _NO_TYPE.intersection(match["type"].split())
        own = [match["name"]] if match and is_name else []
    elif match := _C_DEFINITION.match(line):
        return Names(declared, _without(_WORD.findall(line), [match[1]]))
    words = _without(_WORD.findall(line), own)
    return Names(declared + ([] if "override" in line else own), words)


def _without_strings(line: str) -> str:
    """The line without its strings; only the expressions of an f-string stay."""
    return _STRING.sub(lambda match: " ".join(_BRACES.findall(match[2])) if match[1] else "", line)


def _without(words: list[str], names: list[str]) -> list[str]:
    left = Counter(names)
    kept = []
    for word in words:
        if left[word]:
            left[word] -= 1
        else:
            kept.append(word)
    return kept


class UnusedNames:
    """Follows the series, patch by patch."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def of_patch(self, changes: Iterable[FileDiff]) -> dict[str, str]:
        """The names that a patch with these changes declares and nobody uses yet, each with its file."""
        declared: dict[str, str] = {}
        for file in changes:
            for line in (line for hunk in file.hunks for line in hunk.lines):
                names = names_of_line(file.path, line[1:].decode("utf-8", "replace"))
                if line[:1] == b"+":
                    self._uses.update(names.used)
                    declared.update(dict.fromkeys(names.declared, file.path))
                elif line[:1] == b"-":
                    self._uses.subtract(names.used)
        return {name: path for name, path in declared.items() if self._uses[name] <= 0}


def known_to(git: Git, base: str, names: Iterable[str]) -> set[str]:
    """Those of the names that stand in the base's own sources of the backend."""
    words = "|".join(names)
    if not words:
        return set()
    return set(git.run("grep", "-hoIwE", words, base, "--", *_CALLERS, check=False).stdout.decode().split())
