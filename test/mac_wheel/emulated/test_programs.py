"""Programs on the device, with the simulator behind the Mac's libraries: the same values and calls as natively."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mac_code.loaded import Inputs, Loaded
from mac_code.machine import Stopped
from mac_code.messages import Messages
from mac_code.programs import Failed, in_child, MacPrograms, NAMES

# The wheel has its kernels compiled; the simulator's backend has them as source.
_OF_SOURCES = ("newLibraryWith", "MTLCompileOptions", "stringWithCString:encoding:")

Fault = Callable[[MacPrograms], object]


def run_all(loaded: Loaded, inputs: Inputs, macos: str) -> dict[str, Any]:
    def run() -> dict[str, Any]:
        messages = Messages()
        programs = MacPrograms(loaded, inputs, messages)
        found = {name: programs.run(name) for name in NAMES}
        return found | {"messages": messages.report(), "others": programs.bridge.calls.count_of_others}

    return in_child(run, macos)


@pytest.mark.parametrize("macos", ["15.2", "14.5"])
def test_programs_are_as_natively(
    loaded: Loaded, inputs: Inputs, native_results: Callable[[str], dict[str, Any]], macos: str
) -> None:
    found, wanted = run_all(loaded, inputs, macos), native_results(macos)
    for name in NAMES:
        assert found[name]["content"] and found[name]["content"] == wanted[name]["content"], name
        assert sequence(found[name]) == sequence(wanted[name]), name
        assert releases(found[name]) == releases(wanted[name]), name
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
        assert [name for name in NAMES if sequence(found[name]) != sequence(other[name])]
        loaded.seen("another sequence of messages")


def sequence(result: dict[str, Any]) -> list[str]:
    """The messages of the backend; hash tables of the two standard libraries release in different orders."""
    left_out = (*_OF_SOURCES, " release]")
    return [each for each in result["sequence"] if not any(word in each for word in left_out)]


def releases(result: dict[str, Any]) -> Counter[str]:
    return Counter(each for each in result["sequence"] if each.endswith(" release]"))


def encoder(programs: MacPrograms) -> int:
    """A compute encoder that is ready to run a kernel of no arguments."""
    send, native = programs.native.send, programs.native
    device = send(native("MTLCopyAllDevices"), "objectAtIndex:", 0)
    text = native.string("kernel void nothing() {}")
    library = send(device, "newLibraryWithSource:options:error:", text, 0, 0)
    function = send(library, "newFunctionWithName:", native.string("nothing"))
    made = send(send(send(device, "newCommandQueue"), "commandBuffer"), "computeCommandEncoder")
    send(made, "setComputePipelineState:", send(device, "newComputePipelineStateWithFunction:error:", function, 0))
    return made


def send_message(programs: MacPrograms, receiver: int, selector: str, *arguments: int) -> int:
    """As compiled code sends it."""
    function = programs.machine.trap("_objc_msgSend")
    return programs.machine.call(function, receiver, programs.native.selector(selector), *arguments)


def sizes_as(function: str) -> Fault:
    def send(programs: MacPrograms) -> None:
        selector = programs.native.selector("dispatchThreads:threadsPerThreadgroup:")
        programs.call(function, encoder(programs), selector, programs.machine.trap("_objc_msgSend"))

    return send


def to_released(programs: MacPrograms) -> None:
    made = programs.native.send(programs.native.object_class("MTLCompileOptions"), "new")
    programs.machine.call(programs.machine.trap("_objc_release"), made)
    send_message(programs, made, "languageVersion")


def released_twice(programs: MacPrograms) -> None:
    made = programs.native.send(programs.native.object_class("MTLCompileOptions"), "new")
    for _ in range(2):
        programs.machine.call(programs.machine.trap("_objc_release"), made)


SIZES = "dispatchThreads:threadsPerThreadgroup:"


@pytest.mark.parametrize(
    ("fault", "planted", "said"),
    [
        (
            lambda programs: programs.run("copies"),
            {"newBufferWithLength:options:": "@32@0:8d16Q24"},
            "-[SimulatedHeap newBufferWithLength:options:] is @ d Q here and @ Q Q by metal-cpp",
        ),
        (
            sizes_as("send_sizes"),
            {SIZES: "v64@0:8{?=QQ}16{?=QQ}40"},
            f"-[SimulatedComputeCommandEncoder {SIZES}] is v {{QQ}} {{QQ}} here and v {{QQQ}} {{QQQ}} by metal-cpp",
        ),
        (sizes_as("send_fields"), {}, "24 bytes at 0x3 are nobody's memory"),
        (to_released, {}, "languageVersion was sent to a deallocated object"),
        (released_twice, {}, "release was sent to a deallocated object"),
        (
            lambda programs: send_message(programs, encoder(programs), "setComputePipelineState:", 3),
            {},
            "argument 1 of -[SimulatedComputeCommandEncoder setComputePipelineState:]: a message was sent to 0x3, which is no object",
        ),
        (
            lambda programs: send_message(programs, encoder(programs), "hash"),
            {},
            "no source says what -[SimulatedComputeCommandEncoder hash] takes",
        ),
        (
            lambda programs: send_message(programs, encoder(programs), "noMethod"),
            {},
            "the simulator does not have -[SimulatedComputeCommandEncoder noMethod]",
        ),
    ],
    ids=[
        "wrong type",
        "wrong struct",
        "struct by value",
        "released",
        "released twice",
        "no object",
        "unknown",
        "no method",
    ],
)
def test_planted_fault_is_seen(
    loaded: Loaded, inputs: Inputs, fault: Fault, planted: dict[str, str], said: str
) -> None:
    def run() -> dict[str, Any]:
        return {"answer": str(fault(MacPrograms(loaded, inputs, Messages(planted))))}

    with pytest.raises(Stopped, match=f"^{re.escape(said)}"):
        in_child(run)
    loaded.seen(said)


def test_struct_by_its_address_is_taken(loaded: Loaded, inputs: Inputs) -> None:
    def run() -> dict[str, Any]:
        messages = Messages()
        sizes_as("send_sizes")(MacPrograms(loaded, inputs, messages))
        return dict(messages.counts)

    assert in_child(run) == {f"-[SimulatedComputeCommandEncoder {SIZES}]": 1}


def test_error_of_the_simulator_is_named(loaded: Loaded, inputs: Inputs) -> None:
    """An exception cannot pass from native code to the machine: it ends the program."""

    def run() -> dict[str, Any]:
        programs = MacPrograms(loaded, inputs, Messages())
        return {"answer": send_message(programs, encoder(programs), "setThreadgroupMemoryLength:atIndex:", 3, 0)}

    with pytest.raises(Failed, match="(?s)SIGABRT.*setThreadgroupMemoryLength") as failure:
        in_child(run)
    loaded.seen(str(failure.value).splitlines()[0])


def test_other_values_are_seen(loaded: Loaded, inputs: Inputs, native_results: Callable[[str], dict[str, Any]]) -> None:
    def run() -> dict[str, Any]:
        programs = MacPrograms(loaded, inputs, Messages())
        send = programs.native.send
        other = lambda graph, _selector, tensor, _axis, _name: send(graph, "reLUWithTensor:name:", tensor, 0)  # noqa: E731
        programs.bridge.answers["softMaxWithTensor:axis:name:"] = other
        return programs.run("softmax")

    assert in_child(run)["content"] != native_results("15.2")["softmax"]["content"]
    loaded.seen("other values")
