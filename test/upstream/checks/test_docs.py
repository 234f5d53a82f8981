"""`docs/source/mps.rst` built by Sphinx, and the coverage of it as upstream's `make coverage` looks at it."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from checked_tree import CHECKOUT, LAYOUT, output_of, overlay_files, tools_packages, torch_environment

PAGE = "docs/source/mps.rst"
# Upstream's conf.py without its theme and what pages other than this one need.
CONF = """
import ast
from pathlib import Path

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.coverage", "sphinx.ext.napoleon"]
autosummary_generate = True
napoleon_use_ivar = True
templates_path = ["_templates"]
root_doc = "mps"
nitpicky = True
for node in ast.parse(Path({conf!r}).read_text("utf-8")).body:
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").startswith("coverage_"):
        globals()[node.targets[0].id] = ast.literal_eval(node.value)
"""
# Of a role in a docstring, which has a line; the types of arguments that Sphinx makes of the list of arguments have none.
_NO_TARGET = re.compile(r":\d+: WARNING: py:\w+ reference target not found: (\S+)$", re.MULTILINE)
_NO_TYPE = re.compile(r":: WARNING: py:class reference target not found: ")


def sphinx(directory: Path, builder: str, page: str | None = None) -> tuple[Path, str]:
    """Build the page, and return where it is with all that was said."""
    source, built = directory / "source", directory / builder
    source.mkdir(parents=True, exist_ok=True)
    (source / "conf.py").write_text(CONF.format(conf=str(CHECKOUT / "docs/source/conf.py")))
    (source / "mps.rst").write_text((CHECKOUT / PAGE).read_text("utf-8") if page is None else page)
    shutil.copytree(CHECKOUT / "docs/source/_templates", source / "_templates", dirs_exist_ok=True)
    done = subprocess.run(
        [str(LAYOUT.python), "-m", "sphinx", "-q", "-T", "-b", builder, str(source), str(built)],
        cwd=directory,
        env=torch_environment(True, tools_packages()),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return built, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return sphinx(tmp_path_factory.mktemp("html"), "html")


def names_of(path: str) -> list[str]:
    """The `__all__` of a module."""
    for node in ast.parse((CHECKOUT / path).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"{path} has no __all__")


def listed() -> list[str]:
    entries: list[str] = []
    for block in re.findall(
        r"^\.\. autosummary::\n((?:    .*\n|\n)+)", (CHECKOUT / PAGE).read_text("utf-8"), re.MULTILINE
    ):
        entries += [line.strip() for line in block.splitlines() if line.strip() and not line.strip().startswith(":")]
    return entries


MODULES = overlay_files(".py")
PUBLIC = {path: names_of(path) for path in MODULES if path.startswith("torch/mps/") and "/_" not in path}


def test_each_name_is_on_the_page_once() -> None:
    names = [name for found in PUBLIC.values() for name in found]
    assert len(names) > 10
    assert [name for name in names if listed().count(name) != 1] == []
    package = names_of("torch/mps/__init__.py")
    assert [name for name in names if package.count(name) != 1] == []
    text = (CHECKOUT / PAGE).read_text("utf-8")
    modules = [path.removesuffix(".py").replace("/", ".") for path in PUBLIC]
    assert [name for name in modules if text.count(f".. py:module:: {name}\n") != 1] == []


def test_page_builds(built: tuple[Path, str]) -> None:
    directory, said = built
    rest = [line for line in said.splitlines() if not _NO_TARGET.search(line) and not _NO_TYPE.search(line)]
    assert "\n".join(rest) == ""
    for name in [name for found in PUBLIC.values() for name in found]:
        page = directory / "generated" / f"torch.mps.{name}.html"
        assert f'id="torch.mps.{name}"' in page.read_text("utf-8")


def test_references_lead_somewhere(built: tuple[Path, str]) -> None:
    """What other pages of upstream's document is not built here, but it must exist."""
    targets = sorted(set(_NO_TARGET.findall(built[1])))
    assert targets
    assert unknown([*targets, "torch.mps.planted"]) == ["torch.mps.planted"]


def unknown(targets: list[str]) -> list[str]:
    """Those that torch does not have."""
    program = (
        "import operator, sys, torch, torch.cuda\n"
        "for target in sys.argv[1:]:\n"
        "    try:\n"
        "        operator.attrgetter(target.removeprefix('torch.'))(torch)\n"
        "    except AttributeError:\n"
        "        print(target)\n"
    )
    return output_of(program, *targets, simulated=True).split()


def undocumented(built: Path) -> list[str]:
    """What the coverage builder lists, but for its heading."""
    return [line.strip() for line in (built / "python.txt").read_text("utf-8").splitlines()[2:] if line.strip()]


def test_coverage_is_complete(tmp_path: Path) -> None:
    """Upstream's job fails for any line below the heading."""
    assert undocumented(sphinx(tmp_path, "coverage")[0]) == []


def test_coverage_misses_what_is_taken_off_the_page(tmp_path: Path) -> None:
    page = (CHECKOUT / PAGE).read_text("utf-8").replace("    recommended_max_memory\n", "")
    assert "* recommended_max_memory" in undocumented(sphinx(tmp_path, "coverage", page)[0])
