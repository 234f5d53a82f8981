"""Ports three of PyTorch's test files to MPS and the backend `mpsgraphs`, as they are imported: `-p mps_ported`.

The files in the checkout stay as they are. Each port changes the syntax tree of its file:

* the device becomes "mps", and the compile backend `mpsgraphs`;
* statements that ask CUDA's graph tree or Inductor are left out, with all that use what they assigned. A test that asserts
  nothing else is skipped.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# With another backend, such as aot_eager, a failure that stays is none of ours.
DEVICE, BACKEND = "mps", os.environ.get("MPS_PORTED_BACKEND", "mpsgraphs")
ONLY_INTERNALS = "asserts only on CUDA's graph tree or on Inductor"
# Functions of torch that make a tensor, on the CPU without a device.
FACTORIES = {
    "arange",
    "empty",
    "empty_strided",
    "eye",
    "full",
    "linspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "tensor",
    "zeros",
}
# What the code of a port calls in place of torch.compile; a name that no test has.
COMPILE = "_compile_for_mps"


@dataclass(frozen=True)
class Port:
    """What of a file is replaced, besides CUDA."""

    # These backends, and the default one, become ours.
    backends: frozenset[str] = frozenset({"inductor", "cudagraphs"})
    # Tensors and modules without a device are made on MPS.
    moves: bool = False
    # Statements with these names are left out.
    internals: frozenset[str] = frozenset()
    # Tests that keep their backend.
    kept: frozenset[str] = frozenset()
    # Fragments of the source, which must be there, and their replacements.
    replacements: tuple[tuple[str, str], ...] = ()


PORTS = {
    "inductor/test_cudagraph_trees.py": Port(
        internals=frozenset(
            {
                *("all_live_block_count", "all_live_blocks", "captured_output", "compile_fx_inner", "counters"),
                *("cudagraphify_impl", "cudagraph_trees", "curr_node", "device_idx", "get_all_cudagraph_segments"),
                *("COUNTER", "clear_cublas_manager", "thrown"),
                *("get_manager", "get_root_children", "num_checkpoints", "tree_cudagraphify_impl"),
                *("_cuda_clearCublasWorkspaces", "_test_unaligned_static_input_impl"),
            }
        ),
    ),
    "functorch/test_aotdispatch.py": Port(
        backends=frozenset({"inductor", "aot_eager"}),
        moves=True,
        replacements=(
            # Kernels of the tests' operators.
            ('["CPU", "CUDA"]', '["CPU", "MPS"]'),
            # What is compiled once is called twice, so that the second call is a replay.
            ("if isinstance(self, TestAOTAutogradWithCache):", "if True:"),
            (
                "        def torch_compile_wrapper(*args, **kwargs):\n            torch._dynamo.reset()\n"
                "            fn = torch.compile(f, backend=dynamo_compiler)\n",
                "        torch._dynamo.reset()\n        fn = torch.compile(f, backend=dynamo_compiler)\n"
                "        def torch_compile_wrapper(*args, **kwargs):\n",
            ),
            # Some tests look at the traced graph: it is made, and ours is run.
            (
                "                # Dynamic is calculated from whether the inputs have fake tensors\n            )\n"
                "            return result\n",
                f"            )\n            return torch._dynamo.lookup_backend({BACKEND!r})(gm, inputs)\n",
            ),
        ),
    ),
    "dynamo/test_backends.py": Port(
        moves=True,
        kept=frozenset({"test_mps_not_supported"}),
        replacements=tuple(
            (f'{function}("inductor"', f'{function}("{BACKEND}"')
            for function in ("ExplainWithBackend", "assertIn", "lookup_backend")
        ),
    ),
}


def compile_for(port: Port) -> Any:
    """torch.compile with our backend in place of those that the port replaces."""

    def compile_for_mps(model: Any = None, *, backend: Any = "inductor", **words: Any) -> Any:
        import torch

        if isinstance(backend, str) and backend in port.backends:
            backend = BACKEND
        if backend == BACKEND:
            words.pop("mode", None)
        return torch.compile(model, backend=backend, **words)

    return compile_for_mps


def names_in(node: ast.AST) -> set[str]:
    """The names and attributes that occur in a node."""
    found = list(ast.walk(node))
    names = {each.id for each in found if isinstance(each, ast.Name)}
    names |= {each.attr for each in found if isinstance(each, ast.Attribute)}
    return names.union(*(each.names for each in found if isinstance(each, ast.Nonlocal)))


def asserts(function: ast.AST) -> bool:
    """Whether a test asserts anything, by itself or by one of its class's functions."""
    return any(
        name.startswith(("assert", "_assert", "check_", "_check", "run_static", "_module_test", "verify_"))
        for name in names_in(function)
    )


class WithoutInternals:
    """Leaves out of a function what needs CUDA's graph tree, and what uses the result of that."""

    def __init__(self, internals: frozenset[str]) -> None:
        self.gone = set(internals)

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        kept = [left for statement in statements if (left := self.statement(statement)) is not None]
        return kept or [ast.copy_location(ast.Pass(), statements[0])]

    def statement(self, node: ast.stmt) -> ast.stmt | None:
        if isinstance(node, (ast.With, ast.For, ast.If, ast.Try, ast.FunctionDef, ast.While)):
            if isinstance(node, (ast.For, ast.If, ast.While)):
                header: ast.AST = node.iter if isinstance(node, ast.For) else node.test
                if names_in(header) & self.gone:
                    return None
            for part in ("body", "orelse", "finalbody"):
                if statements := getattr(node, part, None):
                    setattr(node, part, self.body(statements))
            # `with self.assertRaises(…)` around nothing
            return None if isinstance(node, ast.With) and isinstance(node.body[0], ast.Pass) else node
        if not names_in(node) & self.gone:
            return node
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            self.gone |= {found.id for found in ast.walk(target) if isinstance(found, ast.Name)}
        return None


class ForMps(ast.NodeTransformer):
    """Replaces device and backend, and leaves out what the port does."""

    def __init__(self, port: Port) -> None:
        self.port = port

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name in self.port.kept:
            return node
        if self.port.internals and node.name not in self.port.internals:
            asserted = asserts(node)
            node.body = WithoutInternals(self.port.internals).body(node.body)
            if node.name.startswith("test_") and asserted and not asserts(node):
                skip = ast.parse(f"__import__('unittest').skip({ONLY_INTERNALS!r})", mode="eval").body
                node.decorator_list.insert(0, ast.copy_location(ast.fix_missing_locations(skip), node))
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.partition(":")[0] == "cuda":
            node.value = node.value.replace("cuda", DEVICE)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "HAS_CUDA" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(True), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        said = ast.unparse(node)
        if said == "torch.compile":
            return ast.copy_location(ast.Name(COMPILE, ast.Load()), node)
        if said in ("torch.cuda.synchronize", "torch.cuda.empty_cache"):
            return ast.copy_location(ast.parse(said.replace("cuda", DEVICE), mode="eval").body, node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        said = ast.unparse(node.func)
        owner, _, name = said.rpartition(".")
        if said == "torch.cuda.is_available":
            return ast.copy_location(ast.Constant(True), node)
        if said == "torch.cuda.amp.autocast":
            return ast.copy_location(ast.parse(f"torch.autocast({DEVICE!r})", mode="eval").body, node)
        if name == "cuda" and owner and not node.args:
            assert isinstance(node.func, ast.Attribute)
            return moved(node.func.value, node)
        if not self.port.moves:
            return node
        if (
            owner == "torch"
            and name in FACTORIES
            and all(keyword.arg not in ("device", None) for keyword in node.keywords)
        ):
            node.keywords.append(ast.keyword("device", ast.Constant(DEVICE)))
        elif name in ("Parameter", "Buffer"):
            node.args[0] = moved(node.args[0], node)  # it stays a leaf
        elif owner in ("nn", "torch.nn") and name[0].isupper() or said == "Seq":
            return moved(node, node)
        return node


def moved(value: ast.expr, place: ast.expr) -> ast.expr:
    """The value, moved to the device."""
    call = ast.Call(ast.Attribute(value, "to", ast.Load()), [ast.Constant(DEVICE)], [])
    return ast.copy_location(call, place)


class PortedFile(importlib.machinery.SourceFileLoader):
    """Loads a file of upstream's as its port."""

    port: Port

    def get_code(self, fullname: str) -> CodeType:
        """Never from a cache, which would have the file as it is."""
        source = Path(self.path).read_text("utf-8")
        for old, new in self.port.replacements:
            if old not in source:
                raise ImportError(f"{self.path} does not contain {old!r}: adapt PORTS")
            source = source.replace(old, new)
        tree = ast.fix_missing_locations(ForMps(self.port).visit(ast.parse(source)))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, COMPILE, compile_for(self.port))
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the files that have a port."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = next((file for file in PORTS if Path(file).stem == name.rpartition(".")[2]), None)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if file else None
        if not file or not spec or not spec.origin or not spec.origin.endswith(f"/test/{file}"):
            return None
        spec.loader = PortedFile(name, spec.origin)
        spec.loader.port = PORTS[file]
        return spec


sys.meta_path.insert(0, Finder())
