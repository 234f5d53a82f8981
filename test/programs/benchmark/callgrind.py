"""Counts the instructions of parts of a program with valgrind's tool callgrind.

The program marks its parts by `counted`; `run` starts it and returns the counts. This module does not import torch.
"""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_LIBRARY = "CALLGRIND_REQUESTS"
_SOURCE = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }
"""
# Fixed cache sizes, so that the misses do not depend on the machine.
_CACHES = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=16777216,16,64")

Counts = dict[str, int]


def start() -> None:
    """Start to count, in the program; before this, the program runs faster."""
    ctypes.CDLL(os.environ[_LIBRARY]).start()


@contextmanager
def counted(name: str) -> Iterator[None]:
    """Count what this thread does in the block, in the program."""
    requests, text = ctypes.CDLL(os.environ[_LIBRARY]), name.encode()
    zero, dump = requests.zero, requests.dump  # looked up before the block, whose counts include the call of dump
    zero()
    yield
    dump(text)


def run(command: Sequence[str], environment: Mapping[str, str] = {}, function: str = "") -> dict[str, Counts]:
    """Run a program under callgrind; return the counts of its main thread, by part and callgrind's name of the event.

    Of a part that is counted several times these are the least: the first pays for caches and memory that it fills.
    With a function, its calls alone count. Callgrind counts some work of other threads as the main thread's.
    """
    if not shutil.which("valgrind"):
        raise RuntimeError("valgrind is missing: run `make setup`")
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder, "requests.so"))
        compiler = ["clang-19", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", library]
        subprocess.run(compiler, input=_SOURCE, text=True, check=True)
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--dump-line=no"]
        only = [f"--toggle-collect={function}"] if function else []
        words = [*valgrind, *_CACHES, *only, f"--callgrind-out-file={folder}/counts", *command]
        fixed = {_LIBRARY: library, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        # malloc collects small pieces of memory now and then, which would count for the part that it happens in.
        fixed["GLIBC_TUNABLES"] = "glibc.malloc.mxfast=0"
        done = subprocess.run(words, env={**os.environ, **fixed, **environment}, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("==")]
            raise RuntimeError(f"{' '.join(command)} failed under callgrind: {''.join(said[-1:])}")
        counts: dict[str, Counts] = {}
        # a dump has a file for each thread; the main thread is the first
        for path in Path(folder).glob("counts.*-01"):
            text = path.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
            events, totals = (re.search(rf"^{line}: (.*)$", text, re.MULTILINE) for line in ("events", "totals"))
            if name and events and totals:  # not the dump that callgrind makes at exit
                part = counts.setdefault(name[1], {})
                for event, total in zip(events[1].split(), map(int, totals[1].split())):
                    part[event] = min(total, part.get(event, total))
        return counts
