"""What the bindings of the series register, and what `torch/_C/__init__.pyi.in` says of it."""

import ast
import json
import re

from checked_tree import BASE_REF, git, output_of

STUB = "torch/_C/__init__.pyi.in"
# pybind11 writes the signature of a function as the first line of its docstring.
_SIGNATURE = re.compile(r"^\w+\((.*)\) ->")
_REGISTERED = """
import json, torch
found = {name: getattr(torch._C, name).__doc__ for name in dir(torch._C) if name.startswith("_mps_")}
methods = {name: value.__doc__ for name, value in vars(torch._C._MPSGraph).items() if callable(value)}
print(json.dumps({"functions": found, "methods": methods}))
"""


def registered() -> dict[str, dict[str, str]]:
    """By name, what the patched torch says of its functions and of `_MPSGraph`'s methods."""
    found: dict[str, dict[str, str]] = json.loads(output_of(_REGISTERED, simulated=True))
    known = set(re.findall(r'"(_mps_\w+)"', git("show", f"{BASE_REF}:torch/csrc/mps/Module.cpp")))
    found["functions"] = {name: text for name, text in found["functions"].items() if name not in known}
    found["methods"] = {
        name: text for name, text in found["methods"].items() if not re.match("__(?!init__)|_pybind11_", name)
    }
    return found


def stub(revision: str) -> tuple[dict[str, ast.FunctionDef], dict[str, ast.FunctionDef]]:
    """The functions and `_MPSGraph`'s methods in the stub's part about MPS."""
    text = git("show", f"{revision}:{STUB}")
    start = text.index("# Defined in torch/csrc/mps/Module.cpp")
    # The rest of the file is a template and no Python.
    tree = ast.parse(text[start : text.index("\n# Defined in", start + 1)])
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    methods = {
        method.name: method
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "_MPSGraph"
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }
    return functions, methods


def parameters(documented: str) -> list[tuple[str, bool]]:
    """Names of the parameters in pybind11's signature, and whether they have defaults."""
    signature = _SIGNATURE.match(documented)
    assert signature is not None, documented
    # Commas in brackets are part of a type.
    parts = re.split(r", (?![^\[(]*[\])])", signature[1]) if signature[1] else []
    return [(part.split(":")[0], " = " in part) for part in parts]


def stubbed(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """The same of a function in the stub."""
    names = [one.arg for one in node.args.args]
    without = len(names) - len(node.args.defaults)
    return [(name, index >= without) for index, name in enumerate(names)]


def differs(documented: str, node: ast.FunctionDef) -> bool:
    """Whether number, defaults or the names that the bindings give differ."""
    real, said = parameters(documented), stubbed(node)
    if [default for _, default in real] != [default for _, default in said]:
        return True
    return any(name != other for (name, _), (other, _) in zip(real, said) if not re.fullmatch(r"arg\d+|self", name))


def test_functions_are_those_of_the_stub() -> None:
    functions = registered()["functions"]
    before, now = stub(BASE_REF)[0], stub("HEAD")[0]
    assert len(functions) > 5
    assert functions.keys() == now.keys() - before.keys()
    assert [name for name, text in functions.items() if differs(text, now[name])] == []
    assert [name for name, node in now.items() if name not in before and node.returns is None] == []


def test_methods_are_those_of_the_stub() -> None:
    methods, said = registered()["methods"], stub("HEAD")[1]
    assert len(methods) > 5
    assert methods.keys() == said.keys()
    assert [name for name, text in methods.items() if differs(text, said[name])] == []


def test_differences_are_seen() -> None:
    real = "begin(self: torch._C._MPSGraph, pool: Optional[Tuple[int, int]] = None, mode: str = 'strict') -> None"
    good = ast.parse("def begin(self, pool=None, mode=''): ...").body[0]
    assert isinstance(good, ast.FunctionDef)
    assert not differs(real, good)
    for wrong in ("(self, pool=None)", "(self, pool, mode='')", "(self, pool=None, other='')"):
        node = ast.parse(f"def begin{wrong}: ...").body[0]
        assert isinstance(node, ast.FunctionDef)
        assert differs(real, node)
