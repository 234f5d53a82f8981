"""What is compiled, and with which words."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces

# Of the simulator's headers: what the compiler's own (Apple's, of libSystem and libobjc) do not have.
FRAMEWORK_HEADERS = (
    "CoreFoundation",
    "Foundation",
    "Metal",
    "MetalPerformanceShaders",
    "MetalPerformanceShadersGraph",
)
# The compiler's objc/NSObject.h and Foundation's would declare NSObject twice.
OBJECT_HEADER = "objc/NSObject.h"

LANGUAGE = (
    "-std=c++17",
    "-fblocks",
    "-fobjc-exceptions",
    "-fno-objc-arc",
    # As Apple's compilers of that time: later versions mangle some templates in another way.
    "-fclang-abi-compat=17",
    "-O2",
    "-g0",
    "-fno-sanitize=all",
    "-w",
)
# Symbols stay inside, so that dyld takes none of the official library's in their place.
HIDDEN = ("-fvisibility=hidden", "-fvisibility-inlines-hidden")
DEFINITIONS = (
    "NDEBUG",
    "USE_MPS",
    "AT_PER_OPERATOR_HEADERS",
    "CAFFE2_BUILD_MAIN_LIB",
    "FMT_HEADER_ONLY=1",
    # A header of Apple's kernel has it where others define it by transit.
    "PAGE_SIZE=vm_page_size",
    # libc++'s headers are newer than macOS's library: they are told to use what the oldest one has.
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1",
)
# Kernels are compiled on the Mac; without it the base's code takes those that libtorch_cpu has.
KERNELS_AS_SOURCE = "PYTORCH_JIT_COMPILE_SHADERS"
# The compiler's own choice for a libc++ that is linked in: exceptions' types must be those of the system's.
UNDEFINED = ("_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS", "_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS")


@dataclass(frozen=True)
class Precompiled:
    """A header of the checkout that is read once for many sources."""

    name: str
    header: str
    language: str
    # Includes Python's headers.
    of_python: bool = False


OPERATIONS = Precompiled("operations", "aten/src/ATen/native/mps/OperationUtils.h", "objective-c++")
TENSORS = Precompiled("tensors", "aten/src/ATen/ATen.h", "c++")
BINDINGS = Precompiled("bindings", "torch/csrc/utils/pybind.h", "c++", of_python=True)
# They declare the hooks of the allocator before its file may have them.
WITHOUT_OPERATIONS = ("MPSAllocator.mm",)


@dataclass(frozen=True)
class Unit:
    """A source, and what it sees besides what all do."""

    source: Path
    # Its object, below the folder of objects.
    object: str
    precompiled: Precompiled | None = None
    # Includes Python's headers or names the official library: compiled for each version of Python.
    of_python: bool = False

    @property
    def language(self) -> str:
        return "objective-c++" if self.source.suffix == ".mm" else "c++"


def units(places: MacPlaces, checkout: Path) -> Iterator[Unit]:
    aten = checkout / "aten" / "src" / "ATen"
    backend = [*sorted((aten / "mps").glob("*.*")), *sorted((aten / "native" / "mps").rglob("*.*"))]
    for source in backend:
        if source.suffix == ".cpp":
            yield Unit(source, str(source.relative_to(checkout)), TENSORS)
        elif source.suffix == ".mm":
            header = None if source.name in WITHOUT_OPERATIONS else OPERATIONS
            yield Unit(source, str(source.relative_to(checkout)), header)
    shim = checkout / "torch" / "csrc" / "inductor" / "aoti_torch" / "shim_mps.mm"
    if shim.is_file():
        yield Unit(shim, str(shim.relative_to(checkout)), OPERATIONS)
    yield Unit(places.generated / "ATen" / "RegisterMPS.cpp", "generated/RegisterMPS.cpp", TENSORS)
    for source in sorted((checkout / "torch" / "csrc" / "mps").glob("*.cpp")):
        yield Unit(source, str(source.relative_to(checkout)), BINDINGS, of_python=True)
    for source in sorted((places.own / "takeover").rglob("*.*")):
        name = f"takeover/{source.relative_to(places.own / 'takeover')}"
        if source.suffix in (".mm", ".cpp"):
            yield Unit(source, name, BINDINGS if source.suffix == ".cpp" else None, of_python=True)


def include_directories(places: MacPlaces, checkout: Path) -> list[Path]:
    """For all sources, the first before the second: patched headers hide the official wheel's."""
    official = places.official_headers / "torch" / "include"
    return [
        places.include,
        places.generated,
        checkout / "aten" / "src",
        checkout / "torch" / "csrc" / "api" / "include",
        checkout,
        official,
        official / "torch" / "csrc" / "api" / "include",
        places.own / "takeover",
    ]


def words(places: MacPlaces, pin: MacPin, checkout: Path, kernels_as_source: bool) -> list[str]:
    """The compiler's words for all sources; paths are from the repository's root."""
    definitions = (*DEFINITIONS, *((KERNELS_AS_SOURCE,) if kernels_as_source else ()))
    return [
        *("-target", f"aarch64-macos.{pin.macos}"),
        *LANGUAGE,
        *HIDDEN,
        *(f"-D{definition}" for definition in definitions),
        *(f"-U{name}" for name in UNDEFINED),
        # What __FILE__ gives, for messages.
        f"-ffile-prefix-map={places.shown(checkout)}/=",
        # A precompiled header that a cache gives is older or newer than what it was made of.
        *("-Xclang", "-fno-pch-timestamp"),
        *("-include", "mach/vm_page_size.h"),
        # Registrations wait until the library may take the device over.
        *("-include", places.shown(places.own / "takeover" / "deferred_registrations.h")),
        *(f"-I{places.shown(directory)}" for directory in include_directories(places, checkout)),
    ]
