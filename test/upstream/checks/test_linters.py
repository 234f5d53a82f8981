"""Upstream's formatters and linters, in its versions, on what the series adds and changes."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checked_tree import BASE_REF, changed_files, CHECKOUT, git, LAYOUT, overlay_files, small_tree
from fork_tool.suites.lint_overlay import units_of
from lint_runner import Linter, Message, read_linters

# Linters that would look at files of the series, and why they don't here.
LEFT_OUT = {
    "CLANGTIDY": "wants the compile commands of a whole build; `scripts/mpsfork lint-overlay` runs clang-tidy with those of the simulator",
    "LINTRUNNER_VERSION": "looks at lintrunner itself",
    "MYPY": "wants the generated stubs: see test_types.py",
    "TESTOWNERS": "downloads upstream's labels: see test_owners_are_upstreams",
}
LINTERS = {linter.code: linter for linter in read_linters()}
SERIES = [*overlay_files(), *changed_files()]
AT_WORK = {
    code: [path for path in SERIES if linter.takes(path)] for code, linter in LINTERS.items() if code not in LEFT_OUT
}

# By linter: a fault in a file, and how the linter calls it.
PLANTED = {
    "CLANGFORMAT": ("aten/src/ATen/mps/Planted.mm", "int  planted( );\n", "format"),
    "CMAKE": ("caffe2/CMakeLists.txt", "set (a b)\n", "[whitespace/extra]"),
    "EXEC": ("aten/src/ATen/mps/Planted.mm", "int a;\n", "executable-permissions"),
    "FLAKE8": ("torch/mps/planted.py", "import os\n", "F401"),
    "NEWLINE": ("torch/mps/planted.py", "a = 1\n\n", "Trailing newline"),
    "NOQA": ("torch/mps/planted.py", "import os  # noqa\n", "unqualified noqa"),
    "ONCE_FLAG": ("aten/src/ATen/mps/Planted.mm", "std::once_flag planted;\n", "invalid once_flag"),
    "PYFMT": ("torch/mps/planted.py", "import sys\nimport os\na = {'a':1}\n", "format"),
    "RUFF": ("torch/mps/planted.py", "import os\n", "F401"),
    "SPACES": ("torch/mps/planted.py", "a = 1 \n", "trailing spaces"),
    "TABS": ("torch/mps/planted.py", "if True:\n\ta = 1\n", "saw some tabs"),
    "TEST_HAS_MAIN": (
        "test/test_mps_planted.py",
        "from torch.testing._internal.common_utils import TestCase\n\n\nclass A(TestCase):\n    pass\n",
        "[no-main]",
    ),
    "TYPEIGNORE": ("torch/mps/planted.py", "a = 1  # type: ignore\n", "unqualified type: ignore"),
}


@pytest.fixture(scope="module")
def base_tree() -> Path:
    """The base's version of what the series changes."""
    return small_tree("base", BASE_REF, changed_files())


def complaints(linter: Linter, base: Path) -> list[Message]:
    """What a linter says of the series and not of the base."""
    mine = [path for path in SERIES if linter.takes(path)]
    now = linter.run(CHECKOUT, mine)
    upstreams = [path for path in changed_files() if linter.takes(path)]
    # Where it says nothing, the base need not be asked.
    before = set(linter.run(base, upstreams)) if now and upstreams else set()
    return [message for message in now if message not in before]


@pytest.mark.parametrize("code", [code for code, paths in AT_WORK.items() if paths])
def test_linter_has_nothing_to_say(code: str, base_tree: Path) -> None:
    assert "\n".join(map(str, complaints(LINTERS[code], base_tree))) == ""


@pytest.mark.parametrize("code", sorted(PLANTED))
def test_planted_fault_is_found(code: str) -> None:
    path, text, name = PLANTED[code]
    linter = LINTERS[code]
    assert linter.takes(path)
    tree = small_tree("planted", "HEAD")
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    if code == "EXEC":
        target.chmod(0o755)
    assert name in [message.name for message in linter.run(tree, [path])]


def test_who_looks_at_what() -> None:
    """Reasons are given for linters that would look, and the important ones do."""
    assert all(any(LINTERS[code].takes(path) for path in SERIES) for code in LEFT_OUT)
    assert {path for path in overlay_files(".py") if not LINTERS["PYFMT"].takes(path)} == set()
    formatted = set(AT_WORK["CLANGFORMAT"])
    sources = {path for path in overlay_files(".h", ".mm", ".cpp") if "/test/" not in path and path.startswith("aten/")}
    assert sources <= formatted


def test_sources_that_upstream_does_not_format() -> None:
    """Its patterns leave out some of the overlay; they follow the same rules."""
    linter = LINTERS["CLANGFORMAT"]
    rest = [path for path in overlay_files(".h", ".mm", ".cpp") if not linter.takes(path)]
    assert "\n".join(map(str, linter.run(CHECKOUT, rest))) == ""


def test_versions_are_upstreams() -> None:
    text = (Path(__file__).parent / "requirements.txt").read_text("utf-8")
    pinned = {_pin(line) for line in text.splitlines() if "==" in line}
    names = {name for name, _ in pinned}
    wanted = {_pin(pin) for code, paths in AT_WORK.items() if paths for pin in LINTERS[code].pins}
    assert wanted - pinned == set()
    types = {_pin(pin) for pin in LINTERS["MYPY"].pins}
    # sympy 1.13.0 or what torch wants: the stubs that the annotations need, and no others
    assert {pin for pin in types if pin[0] in names} - pinned == set()
    binaries = json.loads((CHECKOUT / "tools/linter/adapters/s3_init_config.json").read_text())
    version = re.search(r"/([\d.]+)/clang-format$", binaries["clang-format"]["Linux"]["download_url"])
    assert version is not None
    assert ("clang-format", version[1]) in pinned
    assert _pin((CHECKOUT / "docs/requirements.txt").read_text().splitlines()[0]) in pinned


def _pin(line: str) -> tuple[str, str]:
    name, version = line.split(";")[0].split("==")
    return name.strip().lower().replace("_", "-"), version.strip()


def test_owners_are_upstreams() -> None:
    """TESTOWNERS without the download: a label is right if a test of the base has it."""
    known = set(_owners(git("grep", "-h", "^# Owner(s): ", BASE_REF, "--", "test/test_*.py", "test/inductor")))
    for path in overlay_files(".py"):
        if LINTERS["TESTOWNERS"].takes(path):
            first = (CHECKOUT / path).read_text("utf-8").partition("\n")[0]
            owners = _owners(first)
            assert owners, f"{path} begins with {first!r}"
            assert "module: mps" in owners
            assert set(owners) <= known


def _owners(text: str) -> list[str]:
    found = re.findall(r"^# Owner\(s\): (\[.*\])", text, re.MULTILINE)
    return [label for labels in found for label in ast.literal_eval(labels)]


def test_syntax_of_python_3_9(tmp_path: Path) -> None:
    """The oldest Python that the base is built for."""
    assert LAYOUT.pin.read_text("utf-8").count('python = "3.9"') == 1
    files = [path for path in SERIES if path.endswith(".py")]
    for path in files:
        ast.parse((CHECKOUT / path).read_text("utf-8"), path, feature_version=(3, 9))
    assert _ruff_for_3_9([CHECKOUT / path for path in overlay_files(".py")]) == ""
    # Both would let pass what they can't see.
    planted = tmp_path / "planted.py"
    planted.write_text("def f(a: int | None) -> None:\n    match a:\n        case _:\n            pass\n")
    said = _ruff_for_3_9([planted])
    assert "FA102" in said
    assert "match" in said


def _ruff_for_3_9(paths: list[Path]) -> str:
    words = ["check", "--isolated", "--quiet", "--no-cache", "--target-version", "py39", "--select", "FA102"]
    command = [sys.executable, "-m", "ruff", *words, "--output-format", "concise", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_clang_tidy_can_look_at_each_source() -> None:
    """`scripts/mpsfork lint-overlay` takes minutes and is not run here; that it knows how each source is compiled is seen at once."""
    units = units_of(LAYOUT.overlay, CHECKOUT, LAYOUT.simulator_build / "compile_commands.json")
    assert [unit.path for unit in units] == overlay_files(".mm", ".cpp", ".cc")
