"""The compiler as a program: source on standard input, a shared library as result."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import swizzles
from .rewrite import rewrite, Rewritten
from .source import RewriteError, SOURCE_NAME

# What a GPU defines and C++ leaves open is made defined: wrapping integers, saturating conversions, no assumptions
# on aliasing or alignment. Nothing is contracted, so that results can be compared bit by bit.
_FLAGS = (
    "-std=c++17 -fdeclspec -Xclang -ffloat16-excess-precision=none -O1"
    " -ffp-contract=off -fno-math-errno -fwrapv -fno-strict-aliasing -fno-delete-null-pointer-checks"
    " -fno-strict-float-cast-overflow -fmax-type-align=1 -fno-threadsafe-statics"
    " -nostdinc -nostdinc++ -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-stack-protector"
    " -U_FORTIFY_SOURCE -fno-asynchronous-unwind-tables"
).split()
# Lanes that run as fibers must not be moved past each other; threads that know nothing of one another vectorize.
# The vector functions of glibc are as exact as Metal asks for.
_PLAIN_FLAGS = ["-fvectorize", "-fveclib=libmvec"]
_COOPERATIVE_FLAGS = [*_PLAIN_FLAGS, "-fconvergent-functions"]
# The run time is in the process already, or else the library that loads kernels could not be.
_SANITIZER_FLAGS = "-shared-libsan -fno-omit-frame-pointer -gline-tables-only".split()
_HEADERS = (
    "metal_stdlib metal_array metal_atomic metal_common metal_compute metal_config metal_geometric metal_integer"
    " metal_limits metal_math metal_matrix metal_numeric metal_pack metal_packed_vector metal_quadgroup"
    " metal_relational metal_simdgroup metal_simdgroup_matrix metal_tuple metal_type_traits metal_types metal_uniform"
    " metal_extended_vector metal_utility metal_assert simd/simd.h"
).split()
_DIAGNOSTIC = re.compile(rf"^{SOURCE_NAME}:(\d+):(\d+): (.*)$")


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _flags() -> list[str]:
    """The common flags, with the processor's half-precision conversions where it has them."""
    try:
        cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        cpu = ""
    fast = all(re.search(rf"^flags\s*:.*\b{flag}\b", cpu, re.MULTILINE) for flag in ("avx2", "f16c", "fma", "bmi2"))
    return [*_FLAGS, f"-march={'x86-64-v3' if fast else 'x86-64'}"]


def prepare_toolchain(clang: str, source: Path, directory: Path) -> None:
    """Lays out headers and precompiles the library in ``directory``, unless another process was faster."""
    if directory.is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".toolchain-", dir=directory.parent))
    try:
        shutil.copytree(source, work / "include")
        (work / "include" / "metal_simulator" / "swizzles.inc").write_text(swizzles.text(), encoding="utf-8")
        for header in _HEADERS:
            path = work / "metal" / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("", encoding="utf-8")
        # The precompiled header remembers where its sources are: it is built at its final place.
        try:
            work.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
            return
    finally:
        shutil.rmtree(work, ignore_errors=True)


def precompiled(clang: str, toolchain: Path, cooperative: bool, sanitizer: str = "") -> tuple[Path, list[str]]:
    """The precompiled Metal library, built if it is not there, and the flags to use it with."""
    result = toolchain / ("cooperative.pch" if cooperative else "plain.pch")
    flags = [*_flags(), *(_COOPERATIVE_FLAGS if cooperative else _PLAIN_FLAGS)]
    if sanitizer:
        flags += [f"-fsanitize={sanitizer}", *_SANITIZER_FLAGS]
    if not result.exists():
        handle, temporary = tempfile.mkstemp(prefix=".pch-", dir=toolchain)
        os.close(handle)
        header = toolchain / "include" / "mps_simulator_metal.h"
        done = _run([clang, *flags, "-x", "c++-header", str(header), "-o", temporary])
        if done.returncode != 0:
            os.unlink(temporary)
            raise RuntimeError(f"the simulator's Metal library does not compile:\n{done.stderr}")
        os.rename(temporary, result)
    return result, flags


def _place_assertions(messages: list[str]) -> list[str]:
    """Moves failed checks of the simulator's headers to the place in the user's source that asked for them."""
    result: list[str] = []
    placed: list[str] = []
    at = 0
    while at < len(messages):
        failed = re.match(
            r"^[^:]*kernels\.h:\d+:\d+: error: static assertion failed[^:]*(?:::\w+[^:]*)*: (.*)$", messages[at]
        )
        at += 1
        if not failed:
            result.append(messages[at - 1])
            continue
        place = ""
        while at < len(messages) and ": note: " in messages[at]:
            match = _DIAGNOSTIC.match(messages[at])
            if match and not place:
                place = f"{SOURCE_NAME}:{match.group(1)}:1"
            at += 1
        placed.append(f"{place or SOURCE_NAME}: error: {failed.group(1)}")
    # Whatever else the headers complain of follows from the failed check.
    return placed + [line for line in result if line.startswith(SOURCE_NAME)] if placed else result


def user_messages(stderr: str, source: str, rewritten: Rewritten | None = None) -> str:
    """The compiler's messages with the user's own lines under them, and without the simulator's paths."""
    lines = source.split("\n")
    result: list[str] = []
    for message in _place_assertions(stderr.splitlines()):
        if message.startswith("In file included from"):
            continue
        if re.match(r"^\d+ (error|warning)s?( and .*)? generated\.$", message):
            continue
        match = _DIAGNOSTIC.match(message)
        if not match:
            message = re.sub(r"(?:/[^\s:]+/)((?:metal_simulator/)?[\w.]+\.(?:h|inc))", r"\1", message)
            result.append(message)
            continue
        line = int(match.group(1))
        column = int(match.group(2))
        if rewritten is not None:
            column = rewritten.column(line, column)
        result.append(f"{SOURCE_NAME}:{line}:{column}: {match.group(3)}")
        if 1 <= line <= len(lines):
            result.append(lines[line - 1])
            # Past its end the column is one of a macro's expansion.
            if column <= len(lines[line - 1]):
                result.append(" " * (column - 1) + "^")
    return "\n".join(result)


def compile_source(options: argparse.Namespace, source: str, work: Path) -> str:
    """Compiles into ``options.output``; returns the messages of a failure, empty when there was none."""
    toolchain = Path(options.toolchain)
    prepare_toolchain(options.clang, Path(options.include), toolchain)
    text = work / "source.metal"
    text.write_text(f'#line 1 "{SOURCE_NAME}"\n{source}\n', encoding="utf-8")
    preprocess = [
        options.clang,
        *"-E -x c++ -std=c++17 -undef -nostdinc -nostdinc++ -fno-caret-diagnostics -w -D__METAL__=1".split(),
        *(f"-I{toolchain / 'metal'}", "-imacros", str(toolchain / "include" / "mps_simulator_macros.h")),
        *("-D__METAL_MACOS__=1", f"-D__METAL_VERSION__={options.version}"),
        *([] if options.version < 310 else ["-D__HAVE_BFLOAT__=1"]),
        *(["-D__FAST_MATH__=1"] if options.fast_math else []),
        *(f"-D{macro}" for macro in options.define),
        str(text),
    ]
    done = _run(preprocess)
    if done.returncode != 0:
        return user_messages(done.stderr, source)
    try:
        rewritten = rewrite(done.stdout, options.version)
    except RewriteError as error:
        return user_messages(str(error), source)
    library, flags = precompiled(options.clang, toolchain, rewritten.cooperative, options.sanitizer)
    code = work / "source.cpp"
    code.write_text(rewritten.text, encoding="utf-8")
    handle, temporary = tempfile.mkstemp(prefix=".library-", dir=os.path.dirname(options.output))
    os.close(handle)
    command = [
        *(options.clang, *flags, *"-w -fno-caret-diagnostics -fno-color-diagnostics -shared -Wl,-Bsymbolic".split()),
        *("-include-pch", str(library), str(code), "-lm", "-o", temporary),
    ]
    done = _run(command)
    if done.returncode != 0:
        os.unlink(temporary)
        if "error:" not in done.stderr:
            raise RuntimeError(done.stderr)
        return user_messages(done.stderr, source, rewritten)
    os.chmod(temporary, 0o755)
    os.rename(temporary, options.output)
    return ""


def main() -> int:
    """Exit status 0: compiled; 1: messages for the user on standard output; 2: the simulator is at fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--toolchain", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--version", type=int, default=320)
    parser.add_argument("--fast-math", action="store_true")
    parser.add_argument("--sanitizer", default="")
    parser.add_argument("-D", dest="define", action="append", default=[])
    options = parser.parse_args()
    source = sys.stdin.buffer.read().decode("utf-8", "replace")
    with tempfile.TemporaryDirectory(prefix="mps_simulator_shader-") as work:
        try:
            messages = compile_source(options, source, Path(work))
        except (OSError, RuntimeError) as error:
            sys.stdout.write(str(error))
            return 2
    if messages:
        sys.stdout.write(messages)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
