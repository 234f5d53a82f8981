"""Whether the overlay compiles against the release's headers, and who has the names that its objects take."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fork_tool.mac_library.headers import python_headers
from fork_tool.mac_library.libraries import further_names
from fork_tool.mac_library.pin import load_mac_pin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.symbols import python_names
from fork_tool.releases.compile import compiler_words, PLAIN
from fork_tool.releases.make import Made
from fork_tool.releases.symbols import Names, names_of_object, patch_that_defines, sort_names
from fork_tool.series.diffs import FileDiff
from fork_tool.series.project import Project

CAPTURE = "at::mps::MPSStream::recordedCommandBuffer()"
FORGET = "at::mps::MPSExecutableCache::forgetGraphs()"


@pytest.fixture(scope="module")
def mac(project: Project) -> MacPlaces:
    return MacPlaces(project.layout.root)


def test_each_source_of_the_overlay_is_compiled(made: Made) -> None:
    sources = {
        path
        for patch in made.patches
        for path in patch.overlay
        if path.endswith((".mm", ".cpp")) and not path.startswith(("test/", "aten/src/ATen/test/"))
    }
    tree = made.places.layout.shown(made.places.tree)
    compiled = {unit.source.removeprefix(f"{tree}/") for unit in made.compiled}
    assert {path for path in compiled if not path.endswith(PLAIN)} == sources
    assert len(sources) > 15 and all(unit.object.is_file() for unit in made.compiled)


@pytest.fixture(scope="module")
def words(made: Made, project: Project, mac: MacPlaces) -> list[str]:
    """The compiler's, as for the overlay."""
    pin = load_mac_pin(project.layout.pin)
    headers = python_headers(mac, pin, made.pin.wheel.python, project.layout.cache)
    return compiler_words(mac, made.places, made.pin, headers)


def errors_of(mac: MacPlaces, words: list[str], text: str, tmp_path: Path) -> str:
    """What the compiler says of a text; empty if it compiles."""
    done = subprocess.run(
        [str(mac.compiler), *words, "-x", "objective-c++", "-c", "-", "-o", str(tmp_path / "object.o")],
        input=text,
        cwd=mac.repository,
        env={"PATH": "/usr/bin:/bin", **mac.compiler_environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


def test_source_without_the_hunks_on_headers_is_seen(
    made: Made, project: Project, mac: MacPlaces, words: list[str], tmp_path: Path
) -> None:
    overlay = project.layout.overlay / "aten" / "src"
    # Found by what it calls: the hunk's declaration must be missing, whichever function needs it.
    source = next(text for path in overlay.glob("ATen/mps/*.mm") if "->recordingCapture(" in (text := path.read_text()))
    tree = f"-I{mac.shown(made.places.tree)}"
    unpatched = [word for word in words if not word.startswith(tree)] + [f"-I{mac.shown(overlay)}"]
    said = errors_of(mac, unpatched, source, tmp_path)
    assert "no member named 'recordingCapture' in 'at::mps::MPSStream'" in said, said[-2000:]
    assert errors_of(mac, words, source, tmp_path) == ""


def test_graph_cache_that_is_emptied_tells_the_executable_cache(
    made: Made, mac: MacPlaces, words: list[str], tmp_path: Path
) -> None:
    """The executable cache knows graphs by their address, and 2.13's clear() frees them."""
    text = "#include <ATen/native/mps/OperationUtils.h>\nvoid f() { at::native::mps::MPSGraphCache::getInstance()->clear(); }\n"

    def names(of: list[str]) -> set[str]:
        said = errors_of(mac, of, text, tmp_path)
        assert said == "", said[-2000:]
        return set(names_of_object("f", tmp_path / "object.o").taken.values())

    unpatched = [word for word in words if not word.startswith(f"-I{mac.shown(made.places.tree)}")]
    assert FORGET in names(words)
    assert FORGET not in names(unpatched)


@pytest.fixture(scope="module")
def sort(made: Made, project: Project, mac: MacPlaces):  # type: ignore[no-untyped-def]
    """Sorts the names of the objects again, with other facts or patches."""
    objects = [names_of_object(unit.source, unit.object) for unit in made.compiled]
    pin = load_mac_pin(project.layout.pin)
    python = python_names(python_headers(mac, pin, made.pin.wheel.python, project.layout.cache))
    others = {*frozenset().union(*further_names(mac).values()), *python}

    def again(**changes: object) -> Names:
        facts = changes.get("facts", made.facts)
        patches = changes.get("patches", made.patches)
        return sort_names(objects, facts, patches, others)  # type: ignore[arg-type]

    return again


def test_each_name_has_an_owner(made: Made) -> None:
    assert made.names.undefined == []
    assert made.names.torch > 40 and made.names.system > 100
    brought = {each.shown: each.patch for each in made.names.missing}
    assert brought[CAPTURE] == "command-graphs"
    assert all("at::mps::MPSStream::" in shown for shown in brought), brought


def test_name_that_the_libraries_lack(made: Made, sort) -> None:  # type: ignore[no-untyped-def]
    taken = next(name for name in made.facts.exports if "getCurrentMPSStream" in name)
    facts = replace(made.facts, exports=[name for name in made.facts.exports if name != taken])
    missing = sort(facts=facts).undefined
    assert [each.shown for each in missing] == ["at::mps::getCurrentMPSStream()"]
    assert any("MPSCommandGraph.mm" in user for user in missing[0].users)


def test_name_that_only_hunks_on_sources_define(made: Made, sort) -> None:  # type: ignore[no-untyped-def]
    def without_sources(files: tuple[FileDiff, ...]) -> tuple[FileDiff, ...]:
        return tuple(file for file in files if not file.path.endswith(".mm"))

    patches = [replace(patch, files=without_sources(patch.files)) for patch in made.patches]
    assert CAPTURE in [each.shown for each in sort(patches=patches).undefined]


def test_definitions_are_told_from_uses() -> None:
    added = {
        "calls": "  stream->isOnQueue();\n  if (!getIt(1)) {",
        "member": "bool MPSStream::isOnQueue() const {",
        "free": "static int other();\nat::Tensor& getIt(int value) {",
    }
    assert patch_that_defines("at::mps::MPSStream::isOnQueue() const", added) == "member"
    assert patch_that_defines("at::mps::getIt(int)", added) == "free"
    assert patch_that_defines("at::mps::MPSEvent::isOnQueue() const", added) == ""
    assert patch_that_defines("at::mps::other()", {"calls": "  return other();"}) == ""
