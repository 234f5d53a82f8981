"""`verify`: a patch declares only names that it, an earlier patch or a test uses."""

import pytest

from fork_tool.series.contained import names_of_line, UnusedNames
from fork_tool.series.diffs import parse_diff

ENGINE, HEADER, PYTHON = "aten/src/ATen/mps/Engine.mm", "aten/src/ATen/mps/Engine.h", "torch/mps/engine.py"
BINDINGS, STUB, TEST = "torch/csrc/mps/Engine.cpp", "torch/_C/__init__.pyi.in", "test/test_mps_engine.py"


def unused(*patches: dict[str, str]) -> list[list[str]]:
    """The names that each patch, given as the lines that it adds to each file, declares too early."""
    series = UnusedNames()
    found = []
    for files in patches:
        diff = ""
        for path, text in files.items():
            lines = text.splitlines()
            diff += f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
            diff += "".join(f"+{line}\n" for line in lines)
        found.append(list(series.of_patch(parse_diff(diff.encode()))))
    return found


@pytest.mark.parametrize(
    ("name", "declaring", "using"),
    [
        # The five kinds of names for which the check was made.
        ("getCompiled", {HEADER: "  MPSExecutable getCompiled(MPSGraph* graph);"}, {ENGINE: "  auto made = cache.getCompiled(graph);"}),
        ("MPSGraphRun", {HEADER: "struct MPSGraphRun {"}, {ENGINE: "  std::vector<MPSGraphRun> runs;"}),
        ("RUN_GRAPH", {HEADER: "  RUN_GRAPH,"}, {ENGINE: "    case Kind::RUN_GRAPH:"}),
        ("graph_runner", {HEADER: "TORCH_API extern MPSRunner graph_runner;"}, {ENGINE: "  graph_runner = &run;"}),
        ("compile_report", {PYTHON: 'from ._report import compile_report\ndef compile_report():'}, {TEST: "torch.mps.compile_report()"}),
        # Others.
        ("owns_bytes", {HEADER: "  bool owns_bytes = false;"}, {ENGINE: "  if (step.owns_bytes) {"}),
        ("_mps_pool", {BINDINGS: '  module.def("_mps_pool", &pool);'}, {PYTHON: "    return torch._C._mps_pool()"}),
        ("_mps_pool", {STUB: "def _mps_pool() -> int: ..."}, {PYTHON: "    return torch._C._mps_pool()"}),
        ("LIMIT", {PYTHON: "LIMIT: int = 4"}, {PYTHON: '    raise ValueError(f"at most {LIMIT} graphs")'}),
        ("encodeRun", {HEADER: "void encodeRun(const Run& run);", ENGINE: "void encodeRun(const Run& run) {"}, {ENGINE: "  encodeRun(run);"}),
        ("isFull", {HEADER: "  bool isFull() const {", ENGINE: "bool Pool::isFull() const {"}, {TEST: "isFull"}),
    ],
)  # fmt: skip
def test_name_is_used_too_late(name: str, declaring: dict[str, str], using: dict[str, str]) -> None:
    assert unused(declaring, using) == [[name], []]
    assert unused(using | {path: f"{using.get(path, '')}\n{text}" for path, text in declaring.items()}) == [[]]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (ENGINE, "static int count(int first) {"),  # the compiler warns of these three
        (HEADER, "  bool full_ = false;"),
        (ENGINE, "  id<MTLBuffer> buffer = nil;"),
        (HEADER, "class MPSLater;"),
        (HEADER, "  void commit() override;"),
        (HEADER, "  return made(buffer);"),
        (HEADER, "// void later(int first);"),
        (ENGINE, "- (void)endEncoding {"),
        (PYTHON, "    def __enter__(self):"),
        (BINDINGS, '      .def("__exit__", &leave);'),
        (TEST, "def test_replay():"),
        ("docs/source/mps.rst", "later"),
    ],
)
def test_line_declares_nothing(path: str, line: str) -> None:
    assert names_of_line(path, line).declared == []


def test_use_that_goes_away() -> None:
    series = UnusedNames()
    first = f"diff --git a/{PYTHON} b/{PYTHON}\n--- a/{PYTHON}\n+++ b/{PYTHON}\n@@ -0,0 +1,1 @@\n+    return made()\n"
    second = first.replace("@@ -0,0 +1,1 @@\n+    return made()", "@@ -1,1 +1,1 @@\n-    return made()\n+def made():")
    assert series.of_patch(parse_diff(first.encode())) == {}
    assert series.of_patch(parse_diff(second.encode())) == {"made": PYTHON}
