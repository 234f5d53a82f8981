"""Programs on the device, with the simulator behind the Mac's libraries: the same values and calls as natively."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mac_code.loaded import Loaded
from mac_code.machine import Stopped
from mac_code.programs import Failed, MacPrograms, NAMES, OnMac

# The wheel has its kernels compiled; the simulator's backend has them as source. Hash tables of the two standard libraries
# release in different orders.
_LEFT_OUT = r"newLibraryWith|MTLCompileOptions|stringWithCString:encoding:| release\]"
# Programs in which the GPU and other threads decide when memory is free and who is the last to release it.
LONG = ("replays", "ahead", "operators")
_OF_MEMORY = r"newBufferWithLength|[Hh]eap|\[SimulatedBuffer|AllocatedSize|WorkingSetSize|maxBufferLength"

Fault = Callable[[MacPrograms], object]
Natively = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("macos", ["15.2", "14.5"])
def test_programs_are_as_natively(loaded: Loaded, on_mac: OnMac, native_results: Natively, macos: str) -> None:
    def run(programs: MacPrograms) -> dict[str, Any]:
        found = {name: programs.run(name) for name in NAMES}
        return found | {"messages": programs.messages.report(), "others": programs.bridge.calls.count_of_others}

    found, wanted = on_mac(run, macos), native_results(macos)
    for name in NAMES:
        assert found[name]["content"] and found[name]["content"] == wanted[name]["content"], name
        assert sequence(name, found[name]) == sequence(name, wanted[name]), name
        assert name in LONG or releases(found[name]) == releases(wanted[name]), name
    # Of the completion handlers of replays, and of the graph that is encoded ahead.
    assert found["others"]
    sent = {name: len(found[name]["sequence"]) for name in NAMES}
    loaded.report.setdefault("programs_as_natively", {})[f"macOS {macos}"] = found["messages"] | {
        "blocks_of_other_threads": found["others"],
        "messages_in_order": sent,
    }
    if macos == "14.5":
        # The code takes other ways there.
        other = native_results("15.2")
        assert [name for name in NAMES if sequence(name, found[name]) != sequence(name, other[name])]
        loaded.seen("another sequence of messages")


def sequence(name: str, result: dict[str, Any]) -> list[str]:
    """The messages of the backend whose order is the same."""
    left_out = re.compile(f"{_LEFT_OUT}|{_OF_MEMORY}" if name in LONG else _LEFT_OUT)
    # The type int64_t is `long long` on a Mac and `long` here.
    found = (each.replace("LongLong:", "Long:") for each in result["sequence"])
    return [each for each in found if not left_out.search(each)]


def releases(result: dict[str, Any]) -> Counter[str]:
    return Counter(each for each in result["sequence"] if each.endswith(" release]"))


def encoder(programs: MacPrograms) -> int:
    """A compute encoder that is ready to run a kernel of no arguments."""
    native, of = programs.native, programs.native.send
    device = of(native("MTLCopyAllDevices"), "objectAtIndex:", 0)
    library = of(device, "newLibraryWithSource:options:error:", native.string("kernel void nothing() {}"), 0, 0)
    function = of(library, "newFunctionWithName:", native.string("nothing"))
    made = of(of(of(device, "newCommandQueue"), "commandBuffer"), "computeCommandEncoder")
    of(made, "setComputePipelineState:", of(device, "newComputePipelineStateWithFunction:error:", function, 0))
    return made


def options(programs: MacPrograms) -> int:
    return programs.native.send(programs.native.object_class("MTLCompileOptions"), "new")


def released(programs: MacPrograms) -> int:
    made = options(programs)
    programs.machine.call(programs.machine.trap("_objc_release"), made)
    return made


def send(selector: str, *arguments: int, to: Callable[[MacPrograms], int] = encoder) -> Fault:
    """Send a message, as compiled code does."""

    def run(programs: MacPrograms) -> None:
        function, number = programs.machine.trap("_objc_msgSend"), programs.native.selector(selector)
        programs.machine.call(function, to(programs), number, *arguments)

    return run


def send_sizes(how: str) -> Fault:
    """Send it two structs, by the function of this name."""

    def run(programs: MacPrograms) -> None:
        selector, function = programs.native.selector(SIZES), programs.machine.trap("_objc_msgSend")
        programs.call(how, encoder(programs), selector, function)

    return run


SIZES, LENGTH = "dispatchThreads:threadsPerThreadgroup:", "newBufferWithLength:options:"
WRONG_TYPES = {LENGTH: "@32@0:8d16Q24", SIZES: "v64@0:8{?=QQ}16{?=QQ}40"}
ENCODER = "-[SimulatedComputeCommandEncoder"
# Each with the beginning of what is said.
FAULTS: dict[str, tuple[Fault, str]] = {
    "wrong type": (
        lambda programs: programs.run("copies"),
        f"-[SimulatedHeap {LENGTH}] is @ d Q here and @ Q Q by metal-cpp",
    ),
    "wrong struct": (
        send_sizes("send_sizes"),
        f"{ENCODER} {SIZES}] is v {{QQ}} {{QQ}} here and v {{QQQ}} {{QQQ}} by metal-cpp",
    ),
    "struct by value": (send_sizes("send_fields"), "24 bytes at 0x3 are nobody's memory"),
    "released": (send("languageVersion", to=released), "languageVersion was sent to a deallocated object"),
    "released twice": (
        lambda programs: programs.machine.call(programs.machine.trap("_objc_release"), released(programs)),
        "release was sent to a deallocated object",
    ),
    "no BOOL": (
        send("setFastMathEnabled:", 2, to=options),
        "argument 1 of -[MTLCompileOptions setFastMathEnabled:] is 2, which is no BOOL",
    ),
    "no object": (
        send("setComputePipelineState:", 3),
        f"argument 1 of {ENCODER} setComputePipelineState:]: a message was sent to 0x3, which is no object",
    ),
    "unknown": (send("hash"), f"no source says what {ENCODER} hash] takes"),
    "no method": (send("noMethod"), f"the simulator does not have {ENCODER} noMethod]"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_seen(loaded: Loaded, on_mac: OnMac, name: str) -> None:
    fault, said = FAULTS[name]
    with pytest.raises(Stopped, match=f"^{re.escape(said)}"):
        on_mac(fault, planted=WRONG_TYPES if "wrong" in name else {})
    loaded.seen(said)


def test_struct_by_its_address_is_taken(on_mac: OnMac) -> None:
    def run(programs: MacPrograms) -> Counter[str]:
        send_sizes("send_sizes")(programs)
        return programs.messages.counts

    assert on_mac(run) == {f"{ENCODER} {SIZES}]": 1}


def test_error_of_the_simulator_is_named(loaded: Loaded, on_mac: OnMac) -> None:
    """An exception cannot pass from native code to the machine: it ends the program."""
    with pytest.raises(Failed, match="(?s)SIGABRT.*setThreadgroupMemoryLength") as failure:
        on_mac(send("setThreadgroupMemoryLength:atIndex:", 3, 0))
    loaded.seen(str(failure.value).splitlines()[0])


def test_other_values_are_seen(loaded: Loaded, on_mac: OnMac, native_results: Natively) -> None:
    def run(programs: MacPrograms) -> dict[str, Any]:
        programs.bridge.answers["softMaxWithTensor:axis:name:"] = lambda graph, _selector, tensor, _axis, _name: (
            programs.native.send(graph, "reLUWithTensor:name:", tensor, 0)
        )
        return programs.run("softmax")

    assert on_mac(run)["content"] != native_results("15.2")["softmax"]["content"]
    loaded.seen("other values")
