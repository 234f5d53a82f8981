"""Whether the test plan of an entry can be followed at that entry, when the later ones are not there yet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fork_tool.entries import Entry
from fork_tool.git import Git

_PYTHON = re.compile(r"\bpython\s+(test/[\w/]+\.py)((?:\s+[A-Z]\w+(?:\.\w+)?)*)")
# Upstream builds one program of each C++ test.
_PROGRAM = re.compile(r"\bbuild/bin/(\w+)")
_SOURCES = ("aten/src/ATen/test/{}.cpp", "aten/src/ATen/test/{}.mm")


def problems_of_test_plan(scratch: Git, entry: Entry) -> Iterator[str]:
    """A sentence for each test that the plan names and the index, with this entry and those before it, lacks."""
    plan = entry.body[entry.body.lower().find("test plan") :]
    files = set(scratch.names("ls-files", "-z"))
    for path, cases in _PYTHON.findall(plan):
        if path not in files:
            yield f"its test plan runs {path}, which is not there before a later entry: bring a test of its own."
            continue
        text = scratch.text("show", f":{path}")
        for case in cases.split():
            name = case.partition(".")[0]
            if not re.search(rf"^class {name}\b", text, re.MULTILINE):
                yield f"its test plan runs {name} of {path}, which has no such class."
    for program in _PROGRAM.findall(plan):
        if not files.intersection(source.format(program) for source in _SOURCES):
            yield f"its test plan runs build/bin/{program}, whose source is not there before a later entry."
