"""The build of a mutant, which compiles only what it changes, and when a suite has noticed it."""

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fork_tool.suites.mutants import suites as mutants_suites
from fork_tool.suites.mutants.build import DoesNotBuild, MutantBuild
from fork_tool.suites.mutants.patch import MutantSuite
from fork_tool.suites.mutants.place import MutantPlace
from fork_tool.suites.mutants.suites import GREEN, MutantSuites, NOT_RUN, NOTICED, TIMED_OUT
from fork_tool.suites.suite import PYTEST, Suite
from workshop import LINUX, Workshop

COMPILER = shutil.which("clang++-19") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(not (COMPILER and shutil.which("ninja")), reason="needs clang and ninja")
SOURCES = {
    "number.h": "inline int number() { return 4; }\n",
    "number.cpp": '#include "number.h"\nextern "C" int answer() { return 10 * number() + 2; }\n',
    "other.cpp": 'extern "C" int other() { return 1; }\n',
}
NINJA = """rule compile
  command = {compiler} -fPIC -MD -MF $out.d -o $out -c $in
  depfile = $out.d
  deps = gcc
rule link
  command = : && {compiler} -fuse-ld=lld -shared -Wl,-soname,libanswer.so,-Map={build}/answer.map -o $out $in && :
build number.o: compile {source}/number.cpp
build other.o: compile {source}/other.cpp
build libanswer.so: link number.o other.o
"""


class Small:
    """A library of two objects, built by ninja."""

    def __init__(self, root: Path):
        self.source, self.build, self.given = root / "source", root / "build", root / "given"
        for directory in (self.source, self.build, self.given, root / "pytorch" / "torch"):
            directory.mkdir(parents=True)
        for name, text in SOURCES.items():
            (self.source / name).write_text(text)
        (self.build / "build.ninja").write_text(NINJA.format(compiler=COMPILER, source=self.source, build=self.build))
        subprocess.run(["ninja", "--quiet"], cwd=self.build, check=True)
        commands = [
            {
                "directory": str(self.build),
                "file": str(self.source / f"{name}.cpp"),
                "command": f"{COMPILER} -fPIC -o {name}.o -c {self.source / name}.cpp",
            }
            for name in ("number", "other")
        ]
        (self.build / "compile_commands.json").write_text(json.dumps(commands))
        self.checkout = root / "pytorch"
        facts = {"library": str(self.build / "libanswer.so"), "bindings": str(self.build / "b.so"), "checkout": "x"}
        (self.build / "mps_simulator.json").write_text(json.dumps(facts))
        module = self.checkout / "torch" / "mps.py"
        (self.build / "changed_modules.json").write_text(json.dumps({"torch.mps": str(module)}))
        self.mutant = MutantBuild(self.build, self.checkout, root / "scratch")

    def make(self, **texts: str) -> Path:
        """Build with other texts of the files; returns the library that programs find."""
        changed = {}
        for name, text in texts.items():
            file = name.replace("_", ".")
            (self.given / file).write_text(text)
            changed[self.source / file] = self.given / file
        elsewhere = self.source.parent / "elsewhere"
        self.mutant.make(changed, elsewhere)
        facts = json.loads((self.mutant.directory / "mps_simulator.json").read_text())
        assert facts["checkout"] == str(elsewhere)
        modules = json.loads((self.mutant.directory / "changed_modules.json").read_text())
        assert modules == {"torch.mps": str(elsewhere / "torch" / "mps.py")}
        return Path(facts["library"])


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def answer(library: Path) -> int:
    """What the library says, in a process of its own, which knows no other of the name."""
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
    return int(subprocess.run(["python3", "-c", code], capture_output=True, text=True, check=True).stdout)


def test_source_header_and_nothing(small: Small) -> None:
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in small.build.iterdir()}
    assert answer(small.make()) == 42
    assert small.make().is_symlink()
    library = small.make(number_cpp='extern "C" int answer() { return 7; }\n')
    assert not library.is_symlink()
    assert answer(library) == 7
    assert answer(small.make(number_h="inline int number() { return 5; }\n")) == 52
    # Nothing is left of the one before.
    assert answer(small.make()) == 42
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in small.build.iterdir()} == before
    assert (small.source / "number.h").read_text() == SOURCES["number.h"]
    assert ctypes.CDLL(str(small.build / "libanswer.so")).answer() == 42


def test_cache_that_knows_the_object_is_not_asked(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ccache the command and the file's own text are the same."""
    ccache = shutil.which("ccache")
    if not ccache:
        pytest.skip("needs ccache")
    monkeypatch.setenv("CCACHE_DIR", str(small.build.parent / "cache"))
    path = small.build / "compile_commands.json"
    commands = json.loads(path.read_text())
    for entry in commands:
        entry["command"] = f"{ccache} {entry['command']}"
    path.write_text(json.dumps(commands))
    for number in (7, 8):
        assert answer(small.make(number_cpp=f'extern "C" int answer() {{ return {number}; }}\n')) == number


def test_what_does_not_build(small: Small) -> None:
    with pytest.raises(DoesNotBuild, match="error: "):
        small.make(number_cpp="int answer( {\n")
    with pytest.raises(DoesNotBuild, match="duplicate symbol"):
        # Compiles, and does not link.
        small.make(number_cpp='extern "C" int other() { return 2; }\n')
    (small.source / "alone.h").touch()
    with pytest.raises(DoesNotBuild, match="nothing of the build is compiled from"):
        small.make(alone_h="int other();\n")


TESTS = """
import os, signal, time
class TestAll:
    def test_good(self): pass
    def test_bad(self): assert False
    def test_dies(self): os.kill(os.getpid(), signal.SIGSEGV)
    def test_hangs(self):
        if os.fork() == 0:
            time.sleep(60)
        time.sleep(60)
"""
SUITES = (
    Suite("tests", PYTEST),
    Suite("device", PYTEST, on_device=True),
    Suite("program", ()),
)


@pytest.fixture
def suites(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> MutantSuites:
    place = MutantPlace(workshop.layout)
    for name, text in {
        "test_all.py": TESTS,
        "test_broken.py": "import nothing_of_the_kind\n",
        "program.py": "import sys; sys.exit(int(sys.argv[1]))\n",
    }.items():
        path = place.tree / "test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Programs on the device: here a package that runs none, or says no.
    package = place.tree / "test" / "simulator" / "mps_simulator"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import os, runpy, sys\n"
        "if sys.argv[1] == '-c': sys.exit(int(os.environ.get('LOST', '0')))\n"
        "sys.argv = sys.argv[2:]\n"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
    )
    monkeypatch.setattr(mutants_suites, "load_suites", lambda _layout: SUITES)
    made = MutantSuites(workshop.project, LINUX, place)
    made._python = Path(sys.executable)
    return made


@pytest.mark.parametrize(
    ("suite", "words", "state", "detail"),
    [
        ("tests", "TestAll::test_good", GREEN, ""),
        ("tests", "TestAll::test_good TestAll::test_bad", NOTICED, "TestAll::test_bad"),
        ("tests", "test/test_broken.py", NOT_RUN, "exit status 2"),
        ("tests", "test/no_such_file.py", NOT_RUN, "exit status 4"),
        ("tests", "test/test_all.py -k nothing_like_it", NOT_RUN, "exit status 5"),
        ("device", "TestAll::test_dies", NOTICED, "test/test_all.py::TestAll::test_dies (died of SIGSEGV)"),
        ("tests", "TestAll::test_hangs", TIMED_OUT, "no end within 5 s"),
        ("program", "test/program.py 0", GREEN, ""),
        ("program", "test/program.py 1", NOTICED, "exit status 1"),
        ("program", "test/program.py 2", NOT_RUN, "exit status 2"),
    ],
)
def test_results(suites: MutantSuites, tmp_path: Path, suite: str, words: str, state: str, detail: str) -> None:
    limit = 5.0 if state == TIMED_OUT else 60.0
    words = words.replace("TestAll", "test/test_all.py::TestAll")
    result = suites.run([MutantSuite(suite, tuple(words.split()))], limit, tmp_path / "log.txt")
    assert (result.state, result.detail.split(",")[0]) == (state, detail)


def test_death_with_the_device_is_no_test_that_noticed(
    suites: MutantSuites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOST", "1")
    suite = MutantSuite("device", ("test/test_all.py::TestAll::test_dies",))
    result = suites.run([suite], 30.0, tmp_path / "log.txt")
    assert result.state == NOT_RUN
    assert "nothing runs on the device any more" in result.detail


def test_what_can_be_run_as_one(suites: MutantSuites) -> None:
    assert suites.can_be_joined(MutantSuite("tests", ("test/a.py",)))
    assert not suites.can_be_joined(MutantSuite("tests", ("test/a.py", "-k", "b")))
    assert not suites.can_be_joined(MutantSuite("program", ("test/program.py",)))
