"""The stubs of torch._C, the overlay's bindings and torch.cuda agree on names and order of arguments."""

import ast
import inspect
import os
import re
from pathlib import Path

import pytest
import torch

_STUBS = os.environ.get("MPSFORK_STUBS") or str(
    Path(os.environ["MPSFORK_STAND_IN"]).parent / "tree/torch/_C/__init__.pyi.in"
)
_TREE = ast.parse(Path(_STUBS).read_text())
_ADDED = re.compile(
    r"_mps_(executable|set_exec|is_exec|graph_|isC.*(Stream|Underway)|isWatched|memoryKeyOf|haveMemoryKeys|relations|versions|areUn"
    r"|requireG)"
)


def stubs() -> dict[str, list[str]]:
    """The names of the arguments by function, `_MPSGraph.replay` or `_mps_memoryKeyOf`, of what the series adds."""
    found = {}
    for node in _TREE.body:
        if isinstance(node, ast.FunctionDef) and _ADDED.match(node.name):
            found[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.ClassDef) and node.name == "_MPSGraph":
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    found[f"_MPSGraph.{method.name}"] = [argument.arg for argument in method.args.args]
    return found


def bound(name: str) -> list[str]:
    target = torch._C
    for part in name.split("."):
        target = getattr(target, part)
    first = (target.__doc__ or "").splitlines()[0]
    return re.findall(r"(\w+): ", first[first.index("(") :])


def test_all_that_is_declared_is_there() -> None:
    names = stubs()
    assert len(names) > 20
    for name in names:
        bound(name)


@pytest.mark.parametrize("name", sorted(stubs()))
def test_arguments(name: str) -> None:
    declared, found = stubs()[name], bound(name)
    assert len(declared) == len(found)
    for one, other in zip(declared, found):
        # pybind11 calls those without a name arg0, arg1, …
        assert one == other or re.fullmatch(r"arg\d+", other), (declared, found)


def arguments(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_as_cuda() -> None:
    """A program written for torch.cuda's graphs goes on with torch.mps's."""
    cuda, mps = arguments(torch.cuda.graphs.graph.__init__), arguments(torch.mps.graph.__init__)
    keywords = inspect.signature(torch.mps.graph.__init__).parameters
    by_place = [name for name in mps if keywords[name].kind is not inspect.Parameter.KEYWORD_ONLY]
    by_place.remove("annotation_config")  # CUDA's class has it from 2.15 on
    assert by_place == ["mps_graph" if name == "cuda_graph" else name for name in cuda]
    wanted = arguments(torch.cuda.make_graphed_callables)
    assert arguments(torch.mps.make_graphed_callables)[: len(wanted)] == wanted
    names = "capture_begin capture_end instantiate replay reset pool debug_dump enable_debug_mode"
    for name in names.split():
        assert callable(getattr(torch.mps.MPSGraph, name)) and callable(getattr(torch.cuda.CUDAGraph, name))


def test_executable_cache(calls) -> None:  # type: ignore[no-untyped-def]
    assert torch.mps.executable_cache_stats() == {"hits": 1, "misses": 2, "evictions": 3, "entries": 4, "limit": 1024}
    torch.mps.set_executable_cache_limit(7)
    assert torch.mps.executable_cache_stats()["limit"] == 7
    torch.mps.set_executable_cache_limit(1024)
    torch.mps.executable_cache_clear()
    assert calls() == ["clear executables"]
