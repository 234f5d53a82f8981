"""Runs the programs: on the machine with the simulator behind it, and natively on the simulator."""

import ctypes
import faulthandler
import os
import signal
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from mac_code.bridge import Bridge
from mac_code.kernels import Kernels
from mac_code.loaded import Inputs, Loaded
from mac_code.machine import Stopped
from mac_code.messages import Messages
from mac_code.native import Native

NAMES = ("copies", "ones", "kernel", "matmul", "convolution", "softmax", "random", "replays", "ahead", "operators")
# In seconds; then the signal ends it.
_LONGEST = 300
_FORK = get_context("fork")
# Does some work with the programs on the machine; see conftest.py.
OnMac = Callable[..., Any]


class Failed(Exception):
    """The text says why a program did not run to its end."""


def in_child(job: Callable[[], Any], macos: str = "15.2") -> Any:
    """Run this in a copy of the process, for a version of macOS: the simulator's state cannot be brought back."""
    receiver, sender = _FORK.Pipe(duplex=False)
    with tempfile.TemporaryFile("w+") as said:

        def work() -> None:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            sys.stderr = said
            faulthandler.enable()
            signal.alarm(_LONGEST)
            os.environ["MPS_SIMULATOR_MACOS"] = macos
            try:
                sender.send(job())
            except Stopped as problem:
                sender.send(problem)

        child = _FORK.Process(target=work)
        child.start()
        sender.close()
        try:
            found = receiver.recv()
        except EOFError:
            found = None
        child.join()
        if status := child.exitcode:
            reason = signal.Signals(-status).name if status < 0 else f"status {status}"
            said.seek(0)
            raise Failed(f"the program ended with {reason}: {said.read(2000)}")
    if isinstance(found, Stopped):
        raise found
    return found


class MacPrograms:
    """The programs on the machine, after the take-over."""

    def __init__(self, loaded: Loaded, inputs: Inputs, messages: Messages):
        """Bring the simulator into this process, which cannot be undone; the machine is as after loading."""
        process = loaded.process
        self.machine, self.messages = process.machine, messages
        self.image = process.load(inputs.runtime / "extensions/libprograms.dylib")
        self.native = Native(inputs.simulator)
        self.bridge = Bridge(process, self.native, messages)
        Kernels(self.bridge, sorted((inputs.bench.checkout / "aten/src/ATen/native/mps/kernels").glob("*.metal")))
        for image in (loaded.own, self.image):
            self.bridge.attach(image)
        process.initialize(self.image)
        if refusal := loaded.load_step(0):
            raise Failed(refusal)

    def call(self, name: str, *arguments: int) -> int:
        return self.machine.call(self.image.address(f"_mac_code_{name}"), *arguments)

    def run(self, name: str) -> dict[str, Any]:
        """Run a program; returns what it left."""
        self.messages.sequence = []
        problem = self.call("run", self.machine.data(f"program {name}", name.encode() + b"\0"))
        self.bridge.calls.do_waiting()
        if problem:
            raise Failed(f"{name}: {self.machine.text(problem)}")
        content = self.machine.read(self.call("content"), self.call("content_size"))
        return {"content": content, "sequence": self.messages.sequence}


def run_all_natively(inputs: Inputs) -> dict[str, Any]:
    """Run the programs that were built for the simulator."""
    trace = ctypes.CDLL(str(inputs.runtime / "extensions/libtrace.so"), mode=ctypes.RTLD_GLOBAL)
    native = Native(inputs.simulator)
    is_backend = backend_of(inputs.simulator)
    programs = ctypes.CDLL(str(inputs.runtime / "extensions/libprograms.so"))
    programs.mac_code_run.restype = ctypes.c_char_p
    programs.mac_code_content.restype = programs.mac_code_content_size.restype = ctypes.c_size_t
    count, found = ctypes.c_ulong.in_dll(trace, "mac_code_message_count"), {}
    for name in NAMES:
        count.value = 0
        problem = programs.mac_code_run(name.encode())
        if problem:
            raise Failed(f"{name}: {problem.decode()}")
        messages = (ctypes.c_uint64 * 3 * count.value).in_dll(trace, "mac_code_messages")
        sequence = [
            native.title(object_class, native.text(native("sel_getName", selector)))
            for object_class, selector, caller in messages
            if is_backend(caller)
        ]
        content = ctypes.string_at(programs.mac_code_content(), programs.mac_code_content_size())
        found[name] = {"content": content, "sequence": sequence}
    return found


def backend_of(library: Path) -> Callable[[int], bool]:
    """Whether a call that returns to an address is the backend's, by the map of the simulator's linker."""
    line = next(each for each in Path("/proc/self/maps").read_text().splitlines() if each.endswith(str(library)))
    base = int(line.split("-")[0], 16)
    lines = (each.split() for each in library.with_suffix(".map").read_text().splitlines() if "/backend_" in each)
    parts = sorted((base + int(each[0], 16), int(each[2], 16)) for each in lines if ":(.text" in each[4])

    def is_backend(address: int) -> bool:
        begin, size = parts[bisect_left(parts, (address,)) - 1]
        return begin < address <= begin + size

    return is_backend
