"""Runs the programs: on the machine with the simulator behind it, and natively on the simulator."""

import ctypes
import faulthandler
import json
import os
import signal
import tempfile
import traceback
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mac_code.bridge import Bridge
from mac_code.kernels import Kernels
from mac_code.loaded import Inputs, Loaded
from mac_code.machine import Stopped
from mac_code.messages import Messages
from mac_code.native import Native

_NAMES = ("copies", "ones", "kernel", "matmul", "convolution", "softmax", "random", "replays", "ahead", "operators")
# In seconds; then the signal ends it.
_LONGEST = 300
_BACKEND = "CMakeFiles/backend_"
Job = Callable[[], dict[str, Any]]


def names(macos: str) -> tuple[str, ...]:
    """The programs of programs.cpp; graph runs cannot be linked on macOS 14."""
    return (*_NAMES, "linked") if macos == "15.2" else _NAMES


class Failed(Exception):
    """The text says why a program did not run to its end."""


def in_child(job: Job, macos: str = "15.2") -> dict[str, Any]:
    """Run this in a copy of the process, for a version of macOS: the simulator's state cannot be brought back."""
    with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            try:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                faulthandler.enable(2)
                signal.alarm(_LONGEST)
                os.environ["MPS_SIMULATOR_MACOS"] = macos
                json.dump(job(), answer)
            except Stopped as problem:
                json.dump({"stopped": str(problem)}, answer)
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
            answer.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer.seek(0)
        said.seek(0)
        text = answer.read()
        if status or not text:
            reason = signal.Signals(-status).name if status < 0 else f"status {status}"
            raise Failed(f"the program ended with {reason}: {said.read(2000)}")
        found: dict[str, Any] = json.loads(text)
        if "stopped" in found:
            raise Stopped(found["stopped"])
        return found


class MacPrograms:
    """The programs on the machine, after the take-over."""

    def __init__(self, loaded: Loaded, inputs: Inputs, messages: Messages):
        """Bring the simulator into this process, which cannot be undone; the machine is as after loading."""
        process = loaded.process
        self.machine, self.messages = process.machine, messages
        self.image = process.load(inputs.runtime.programs)
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
        return {"content": content.hex(), "sequence": self.messages.sequence}


def run_all_natively(inputs: Inputs, macos: str) -> dict[str, Any]:
    """Run the programs that were built for the simulator."""
    trace = ctypes.CDLL(str(inputs.runtime.trace), mode=ctypes.RTLD_GLOBAL)
    native = Native(inputs.simulator)
    backend = Backend(inputs.simulator)
    programs = ctypes.CDLL(str(inputs.runtime.native_programs))
    programs.mac_code_run.restype = ctypes.c_char_p
    for function in (programs.mac_code_content, programs.mac_code_content_size, trace.mac_code_messages):
        function.restype = ctypes.c_size_t
    found = {}
    for name in names(macos):
        trace.mac_code_take_count()
        problem = programs.mac_code_run(name.encode())
        if problem:
            raise Failed(f"{name}: {problem.decode()}")
        messages = (ctypes.c_uint64 * 3 * trace.mac_code_take_count()).from_address(trace.mac_code_messages())
        sequence = [
            native.title(object_class, native.text(native("sel_getName", selector)))
            for object_class, selector, caller in messages
            if backend.has(caller)
        ]
        content = ctypes.string_at(programs.mac_code_content(), programs.mac_code_content_size())
        found[name] = {"content": content.hex(), "sequence": sequence}
    return found


class Backend:
    """Where the backend's code is in the simulator's library, as its linker noted."""

    def __init__(self, library: Path):
        """The library is in this process."""
        line = next(each for each in Path("/proc/self/maps").read_text().splitlines() if each.endswith(str(library)))
        base = int(line.split("-")[0], 16)
        lines = (each.split() for each in library.with_suffix(".map").read_text().splitlines() if _BACKEND in each)
        found = sorted((base + int(each[0], 16), int(each[2], 16)) for each in lines if ":(.text" in each[4])
        self._begins, self._sizes = [begin for begin, _ in found], [size for _, size in found]

    def has(self, address: int) -> bool:
        """Whether a call that returns to this address is the backend's."""
        number = bisect_left(self._begins, address) - 1
        return number >= 0 and address <= self._begins[number] + self._sizes[number]
