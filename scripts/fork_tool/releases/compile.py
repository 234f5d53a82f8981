"""The overlay's sources, compiled for arm64 macOS against the release's headers."""

from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically, write_if_changed
from fork_tool.common.processes import run_shown
from fork_tool.mac_library.ninja_file import cached, NinjaFile
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.sources import DEFINITIONS, HIDDEN, KERNELS_AS_SOURCE, LANGUAGE, UNDEFINED
from fork_tool.mac_library.tools import compiler_environment
from fork_tool.releases.release import ReleasePin, ReleasePlaces
from fork_tool.series.overlay import TESTS

# fmt of the base of `base.toml` calls its checks of formats at compile time, which a newer compiler refuses with C++20.
_FMT = "FMT_CONSTEVAL="
# A header that plain C++ includes, in the backend's bindings.
PLAIN = "plain_cpp.cpp"
_PLAIN_TEXT = "// Made by `scripts/mpsfork test-release`: these headers are not for Objective-C++ alone.\n"


@dataclass(frozen=True)
class Compiled:
    source: str
    object: Path


def sources_of(places: ReleasePlaces) -> list[Path]:
    # The C++ tests want gtest, and are upstream's build's.
    found = [path for path in places.tree.rglob("*") if path.suffix in (".mm", ".cpp")]
    return sorted(path for path in found if not str(path.relative_to(places.tree)).startswith(TESTS))


def compiler_words(mac: MacPlaces, places: ReleasePlaces, pin: ReleasePin, python_headers: Path) -> list[str]:
    """The compiler's words for all sources; paths are from the repository's root."""
    api = "torch/csrc/api/include"
    folders = [
        mac.include,
        places.tree / "aten" / "src",
        places.tree / api,
        places.tree,
        places.headers,
        places.headers / api,
        python_headers,
    ]
    language = [word for word in LANGUAGE if not word.startswith(("-std=", "-O"))]
    return [
        *("-target", f"aarch64-macos.{pin.macos}"),
        *language,
        *(f"-std={pin.standard}", "-O1"),
        *HIDDEN,
        *(f"-D{definition}" for definition in (*DEFINITIONS, KERNELS_AS_SOURCE, _FMT)),
        *(f"-U{name}" for name in UNDEFINED),
        *("-include", "mach/vm_page_size.h"),
        *(f"-I{mac.shown(folder)}" for folder in folders),
    ]


def ninja_text(mac: MacPlaces, places: ReleasePlaces, words: list[str], found: list[Compiled]) -> str:
    """The build of the objects; ccache keeps what another folder has compiled."""
    file = NinjaFile(mac, places.root)
    file.variable("words", words)
    file.compile_rule(f"{cached(mac.shown(mac.compiler))} $words -x $language")
    for unit in found:
        language = "objective-c++" if unit.source.endswith(".mm") else "c++"
        file.build(unit.object, "compile", [Path(unit.source)], language=language)
    return file.text()


def compile_overlay(
    mac: MacPlaces, mac_pin: MacPin, places: ReleasePlaces, pin: ReleasePin, python_headers: Path
) -> list[Compiled]:
    """Bring the objects up to date."""
    plain = places.root / PLAIN
    names = [
        path.relative_to(places.tree / "aten" / "src") for path in places.tree.rglob("aten/src/ATen/mps/MPSStream.h")
    ]
    text = _PLAIN_TEXT + "".join(f"#include <{name}>\n" for name in sorted(names))
    write_if_changed(plain, text.encode())
    found = [
        Compiled(mac.shown(source), places.objects / f"{source.relative_to(places.tree)}.o")
        for source in sources_of(places)
    ]
    found.append(Compiled(mac.shown(plain), places.objects / f"{PLAIN}.o"))
    words = compiler_words(mac, places, pin, python_headers)
    write_atomically(places.ninja_file, ninja_text(mac, places, words, found).encode())
    command = [str(mac.ninja), "-f", mac.shown(places.ninja_file), "-k", "0"]
    if run_shown(command, mac.repository, compiler_environment(mac, mac_pin)):
        raise ForkToolError(
            f"The overlay does not compile against the headers of {pin.tag} (see above): one line in plain C++ can often serve "
            "both releases (docs/patches.md); what is compiled is kept."
        )
    for path in places.objects.rglob("*.o"):
        if path not in [unit.object for unit in found]:
            path.unlink()
    return found
