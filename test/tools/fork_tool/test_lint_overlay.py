"""`lint-overlay`: whose warnings count, and that each is found."""

import json
import shutil
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import Layout
from fork_tool.suites import lint_overlay as lint_module
from fork_tool.suites.lint_overlay import complaints, lint, units_of

# Warns by -Wextra: an unused parameter.
UPSTREAM = "#pragma once\ninline int upstream(int unused) { return 1; }\n"
CLEAN = "#pragma once\ninline int own(int value) { return value; }\n"
SOURCE = "#include <ATen/mps/Own.h>\n#include <ATen/mps/Upstream.h>\nint both() { return own(1) + upstream(2); }\n"
needs_compiler = pytest.mark.skipif(shutil.which("clang++-19") is None, reason="clang 19 compiles the overlay on Linux")
needs_tidy = pytest.mark.skipif(
    shutil.which("clang-tidy-19") is None, reason="`scripts/mpsfork lint-overlay` alone installs clang-tidy"
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An overlay with a header and a source, applied to a checkout that has a header which warns."""
    made = Layout(tmp_path)
    directory = made.checkout / "aten" / "src" / "ATen" / "mps"
    directory.mkdir(parents=True)
    (directory / "Upstream.h").write_text(UPSTREAM)
    write(made, "Own.h", CLEAN)
    write(made, "Own.mm", SOURCE)
    made.simulator_build.mkdir(parents=True)
    source = directory / "Own.mm"
    command = (
        f'clang++-19 -DBUILD_FOR=\\"here\\" -I{made.checkout}/aten/src -x objective-c++ -std=gnu++17 -Wall -Wno-everything -w '
        f"-Xclang -include-pch -Xclang {directory}/gone.pch -Xclang -include -Xclang {directory}/gone.hxx "
        f"-Xclang -fno-pch-timestamp -MD -MF some.d -o some.o -c {source}"
    )
    entry = {"file": str(source), "directory": str(made.simulator_build), "command": command}
    (made.simulator_build / "compile_commands.json").write_text(json.dumps([entry]))
    return made


def write(layout: Layout, name: str, text: str) -> None:
    """Put a file into the overlay and into the checkout."""
    for top in (layout.overlay, layout.checkout):
        path = top / "aten" / "src" / "ATen" / "mps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def compile_all(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(lint_module.Unit, "tidy", lambda _unit, _overlay: ["true"])
    units = units_of(layout.overlay, layout.checkout, layout.simulator_build / "compile_commands.json")
    return "".join(complaints(unit, layout.overlay) for unit in units)


@needs_compiler
def test_warnings_of_upstream_do_not_count(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile_all(layout, monkeypatch) == ""


@needs_compiler
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Own.mm", SOURCE + "static void unused() {}\n"),
        ("Own.mm", SOURCE + "int compare(unsigned a, int b) { return a < b; }\n"),
        ("Own.h", CLEAN + "inline int second(int unused) { return 1; }\n"),
    ],
)
def test_warning_of_the_overlay_is_an_error(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    write(layout, name, text)
    said = compile_all(layout, monkeypatch)
    assert "-Werror" in said
    assert str(layout.overlay / "aten" / "src" / "ATen" / "mps" / name) in said


@needs_compiler
def test_name_that_the_oldest_sdk_lacks(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    include = Path(__file__).parents[2] / "simulator" / "include"
    versions = f'#include "{include}/AvailabilityMacros.h"\n#ifdef MAC_OS_VERSION_14_0\nconst int kLater = 1;\n#endif\n'
    write(layout, "Own.h", CLEAN + versions)
    assert compile_all(layout, monkeypatch) == ""
    write(layout, "Own.mm", SOURCE + "int later() { return kLater; }\n")
    said = compile_all(layout, monkeypatch)
    assert said.startswith("With the SDK of macOS 13.3:")
    assert "kLater" in said


@needs_compiler
@needs_tidy
@pytest.mark.parametrize("name", ["Own.mm", "Own.h"])
def test_bug_that_is_no_warning_is_found(layout: Layout, name: str) -> None:
    assert lint(layout) == 0
    # Divides first, and then it is too late for a fraction.
    write(layout, name, (SOURCE if name == "Own.mm" else CLEAN) + "inline double half(int n) { return n / 2; }\n")
    units = units_of(layout.overlay, layout.checkout, layout.simulator_build / "compile_commands.json")
    assert "bugprone-integer-division" in complaints(units[0], layout.overlay)
    assert lint(layout) == 1


def test_source_that_the_simulator_does_not_compile(layout: Layout) -> None:
    write(layout, "Other.mm", "int other() { return 1; }\n")
    with pytest.raises(ForkToolError, match=r"does not compile aten/src/ATen/mps/Other\.mm"):
        lint(layout)


@needs_compiler
def test_extension_is_compiled_like_the_bindings(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    database = layout.simulator_build / "compile_commands.json"
    entry = json.loads(database.read_text())[0]
    bindings = str(layout.checkout / "torch" / "csrc" / "mps" / "Module.cpp")
    entries = [entry, entry | {"file": bindings, "command": entry["command"].replace(entry["file"], bindings)}]
    database.write_text(json.dumps(entries))
    extension = layout.overlay / "test" / "cpp_extensions" / "extension.cpp"
    extension.parent.mkdir(parents=True)
    extension.write_text("int name() { int unused; return 1; }\n")
    said = compile_all(layout, monkeypatch)
    assert "unused variable" in said


def test_nothing_to_look_at_is_an_error(layout: Layout) -> None:
    (layout.overlay / "aten" / "src" / "ATen" / "mps" / "Own.mm").unlink()
    with pytest.raises(ForkToolError, match="nothing was looked at"):
        lint(layout)
    (layout.simulator_build / "compile_commands.json").unlink()
    with pytest.raises(ForkToolError, match="run `make simulator`"):
        lint(layout)
