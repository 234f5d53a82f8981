"""Pages against the code: the promises, the API, the list of CUDA's tests, the list of host reads, and the examples in Python."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
INTERNALS = (DOCS / "internals.md").read_text()
LIMITS = (DOCS / "limits.md").read_text()
ATEN = "aten/src/ATen"
CHECKOUT = ROOT / "build" / "pytorch"
OVERLAY = ROOT / "aten_mps_overlay"

FOLDERS = (OVERLAY / "test", ROOT / "test")


def test_each_promise_has_tests() -> None:
    section = LIMITS.partition("\n## The promises\n")[2].partition("\n## ")[0]
    promises = re.findall(r"^(\d+)\. \*\*", section, re.M)
    assert len(promises) > 10
    rows = re.findall(r"^\| (\d+) [^|]*\| (`test_\w+\.py::[^|]+) \|$", INTERNALS, re.M)
    assert [number for number, _ in rows] == promises
    texts = {path.name: path.read_text() for folder in FOLDERS for path in folder.rglob("test_*.py")}
    named = [test for _, tests in rows for test in re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)]
    assert [(file, test) for file, test in named if f"def {test}(" not in texts.get(file, "")] == []


API = (DOCS / "api.md").read_text()


def section(title: str) -> list[str]:
    """The first cells of a section's table."""
    text = API.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^|]+)` \|", text, re.M)


def call_of(name: str, function: Any, skip: int = 0) -> str:
    """How the page writes a function with its arguments."""
    arguments = []
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}".replace("'", '"')
        arguments.append(parameter.name + default)
    return f"{name}({', '.join(arguments)})"


def test_api_page_has_each_public_name_with_its_arguments() -> None:
    modules = [path.stem for path in (OVERLAY / "torch" / "mps").glob("[!_]*.py")]
    names = {"compile_report"}.union(*(importlib.import_module(f"torch.mps.{module}").__all__ for module in modules))
    assert names <= set(torch.mps.__all__)
    assert sorted(section("Functions of `torch.mps`")) == sorted(call_of(n, getattr(torch.mps, n)) for n in names)
    graph: Any = torch.mps.Graph
    methods = [call_of(name, getattr(graph, name), skip=1) for name in dir(graph) if not name.startswith("_")]
    assert sorted(section("Methods of `Graph`")) == sorted(methods)


def test_api_page_has_each_option_and_variable() -> None:
    options = importlib.import_module("torch.mps._compiled_graphs").Options()
    assert section('Options of `torch.compile(backend="mpsgraphs")`') == [
        f"{k}={v!r}" for k, v in vars(options).items()
    ]
    folders = (OVERLAY / "torch", OVERLAY / ATEN / "mps", ROOT / "scripts" / "mac_wheel")
    sources = [path.read_text() for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".mm"}]
    variables = set(re.findall(r"\"((?:PYTORCH|TORCH)_(?:\w+_)?MPS_\w+)\"", "\n".join(sources)))
    assert {row.partition("=")[0] for row in section("Environment variables")} == variables


# All of their tests are about the pools of graphs.
POOL_CLASSES = {"TestBlockStateAbsorption", "TestMemPool"}
CASE = re.compile(r"`(test_\w+\.py)::(\w+)::(test_\w+)`")


def cases_of(path: Path) -> set[tuple[str, str]]:
    """The tests of a file, each with its class."""
    return {
        (node.name, item.name)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name.startswith("test")
    }


def cuda_rows() -> list[tuple[str, str, str]]:
    found = []
    current = ""
    for line in (DOCS / "results" / "cuda_graph_tests.md").read_text().splitlines():
        if heading := re.fullmatch(r"## `(\w+)`", line):
            current = heading[1]
        elif row := re.fullmatch(r"\| `(\w+)` \| (.+) \|", line):
            found.append((current, row[1], row[2]))
    return found


def test_each_test_of_cuda_is_listed_once() -> None:
    of_cuda = cases_of(CHECKOUT / "test" / "test_cuda.py")
    about_graphs = {(c, t) for c, t in of_cuda if "graph" in t or c in POOL_CLASSES}
    assert len(about_graphs) > 30
    listed = [(c, t) for c, t, _ in cuda_rows()]
    assert sorted(listed) == sorted(about_graphs)


def test_each_case_of_ours_exists() -> None:
    named = {match for _, _, ours in cuda_rows() for match in CASE.findall(ours)}
    files = {file for file, _, _ in named}
    assert len(files) > 4
    missing = {f"{f}::{c}::{t}" for f, c, t in named if (c, t) not in cases_of(OVERLAY / "test" / f)}
    assert not missing


def test_each_row_names_a_case_or_a_reason() -> None:
    for _, test, ours in cuda_rows():
        assert CASE.search(ours) or ours.startswith("none: "), test
        # what looks like a case is one
        assert ours.count("::") == 2 * len(CASE.findall(ours)), test


MENTION = re.compile(r"\.item[<(]|\.cpu\(\)|kCPU|\"cpu\"|_local_scalar_dense|COMMIT_AND_WAIT")
# They say what the words mean, or profile.
WITHOUT_READS = {
    "mps/MPSGuardImpl.mm",
    "mps/MPSProfiler.mm",
    "mps/MPSStream.h",
    "mps/MPSStream.mm",
    "native/mps/OperationUtils.h",
    "native/mps/OperationUtils.mm",
}


def host_reads() -> dict[str, int]:
    counts = {}
    for folder in ("mps", "native/mps"):
        for path in sorted((CHECKOUT / ATEN / folder).rglob("*")):
            name = path.relative_to(CHECKOUT / ATEN).as_posix()
            if path.suffix not in {".mm", ".h", ".cpp"} or name in WITHOUT_READS or (OVERLAY / ATEN / name).exists():
                continue
            lines = [line.split("//")[0] for line in path.read_text().splitlines()]
            count = sum(bool(MENTION.search(line)) for line in lines)
            if count:
                counts[name] = count
    return counts


def listed_reads() -> dict[tuple[str, ...], int]:
    rows = re.findall(r"^\| (`[^|]+`) \| (\d+) \|", INTERNALS, re.M)
    result = {}
    for files, count in rows:
        names = re.findall(r"`([^`]+)`", files)
        folder = names[0].rpartition("/")[0]
        result[tuple(n if "/" in n else f"{folder}/{n}" for n in names)] = int(count)
    return result


def test_every_place_is_listed() -> None:
    found = host_reads()
    claimed = listed_reads()
    assert len(claimed) > 10
    for names, count in claimed.items():
        assert sum(found.get(name, 0) for name in names) == count, names
    assert set(found) <= {name for names in claimed for name in names}


# test/examples builds and runs those of docs/custom-kernels.md.
MODEL_LIBRARIES = ROOT / "build" / "models" / "packages"
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page.stem != "custom-kernels")]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
@pytest.mark.usefixtures("_restore_settings")
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of a page one after the other, in one module."""
    monkeypatch.syspath_prepend(str(MODEL_LIBRARIES))
    monkeypatch.chdir(tmp_path)  # one writes a file
    names: dict[str, Any] = {}
    for example in BLOCK.findall(page.read_text()):
        # On a Mac the fork tool installs no model libraries.
        if sys.platform != "darwin" or "from transformers" not in example:
            exec(compile(example, str(page), "exec"), names)
    torch.mps.synchronize()


@pytest.fixture
def _restore_settings() -> Any:
    enabled = torch._C._mps_is_executable_cache_enabled()
    yield
    torch._C._mps_set_executable_cache_enabled(enabled)


def test_readme_shows_a_replay_on_new_input() -> None:
    names: dict[str, Any] = {}
    exec(BLOCK.findall((ROOT / "README.md").read_text())[-1], names)
    new = torch.randn(32, 64)
    names["x"].copy_(new)
    names["y"].fill_(7)
    torch.mps.graph_replay()
    with torch.no_grad():
        torch.testing.assert_close(names["y"], names["model"](names["x"]), rtol=0, atol=0)


@pytest.mark.skipif(sys.platform == "darwin", reason="the command is the simulator's")
def test_contributing_runs_one_test() -> None:
    (command,) = re.findall(r"^ *(cd build/pytorch/test && .*)$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    # With CI set, torch's run_tests() asks for a package that writes reports.
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    run = subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    said = re.search(r"^Ran (\d+) tests? in", run.stderr, re.M)
    assert run.returncode == 0 and said and int(said[1]) > 0, run.stderr
