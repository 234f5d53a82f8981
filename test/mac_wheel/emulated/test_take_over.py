"""The take-over on the Mac's own code: every table names the library that it should, and a refusal leaves all as it was."""

from collections.abc import Callable

import pytest

from conftest import Loaded
from mac_code.macho import INITIALIZERS
from mac_code.tables import differences, KERNEL, MPS, MPS_DEVICE, OFFICIAL, TakeOver

HOOKS, GENERATOR = "__ZTVN2at3mps8MPSHooksE", "__ZTVN2at16MPSGeneratorImplE"
# Registered by scripts/mac_wheel/takeover/copy.cpp.
FURTHER = "aten::copy_"
STEP_TAKE_OVER, STEP_STAND_BY = 0, 3


def taken_over(loaded: Loaded) -> TakeOver:
    """Take the device over and read the tables."""
    assert loaded.load_step(STEP_TAKE_OVER) is None
    return read_again(loaded)


def read_again(loaded: Loaded) -> TakeOver:
    return TakeOver(loaded.probe, loaded.own.name, loaded.before, loaded.probe.tables())


def seen(loaded: Loaded, fault: str) -> None:
    """Count a planted fault that a check has seen."""
    loaded.report.setdefault("planted_faults_seen", []).append(fault)


def test_every_initializer_runs(loaded: Loaded) -> None:
    for name in ("libc10.dylib", OFFICIAL, loaded.own.name):
        image = loaded.process.image(name)
        wanted = sum(section.size for section in image.file.sections_of(INITIALIZERS)) // 8
        assert image.initialized == wanted > 0, name


def test_loading_registers_nothing(loaded: Loaded) -> None:
    assert differences(loaded.before, loaded.probe.tables()) == []


def test_take_over(loaded: Loaded) -> None:
    result = taken_over(loaded)
    assert result.findings() == []
    official = {name for name, operator in loaded.before.operators.items() if MPS in operator.kernels}
    assert set(result.taken) - official == {FURTHER} and len(official) > 700
    assert len(result.stubs) > 10
    assert result.asked_findings() == []
    # A second call returns what the first did.
    assert loaded.load_step(STEP_TAKE_OVER) is None
    assert read_again(loaded).findings() == []
    autocast = [name for name, operator in loaded.before.operators.items() if "AutocastMPS" in operator.kernels]
    assert autocast
    loaded.report |= {
        "operators": len(loaded.before.operators),
        "operators_of_the_interpreter": len(loaded.before.interpreted),
        "operators_of_autocast_unchanged": len(autocast),
        "operators_taken_over": result.taken,
        "stubs": len(loaded.before.stubs),
        "stubs_taken_over": result.stubs,
    }


Plant = Callable[[Loaded, TakeOver], None]


def plant_kernel(key: str) -> Plant:
    """Put the official kernel of an operator back, or another key's kernel out of its place."""

    def plant(loaded: Loaded, _result: TakeOver) -> None:
        operator = loaded.before.operators["aten::add.Tensor"]
        other = loaded.before.operators["aten::sub.Tensor"]
        number = loaded.before.keys[key]
        content = (operator if key == MPS else other).slot(number)
        assert any(content)
        loaded.machine.write(operator.place + number * KERNEL, content)

    return plant


def plant_function_object(loaded: Loaded, _result: TakeOver) -> None:
    """Put the official function object into our kernel."""
    operator = loaded.before.operators["aten::add.Tensor"]
    number = loaded.before.keys[MPS]
    loaded.machine.write(operator.place + number * KERNEL, operator.slot(number)[:8])


def plant_fallback(loaded: Loaded, _result: TakeOver) -> None:
    number = loaded.before.keys[MPS]
    loaded.machine.write(loaded.before.fallback_places[number], loaded.before.fallbacks[number])


def plant_stub(loaded: Loaded, result: TakeOver) -> None:
    place = loaded.probe.stub_place(result.stubs[0])
    loaded.machine.write_word(place, loaded.process.image(OFFICIAL).address("__ZN2at6detail11getMPSHooksEv"))


def plant_guard(loaded: Loaded, _result: TakeOver) -> None:
    registry = loaded.process.image("libc10.dylib").address("__ZN3c104impl26device_guard_impl_registryE")
    loaded.machine.write_word(registry + 8 * MPS_DEVICE, loaded.before.guards[MPS_DEVICE])


def plant_interpreted(loaded: Loaded, _result: TakeOver) -> None:
    loaded.probe.call("plant_interpreted")


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (plant_kernel(MPS), f"aten::add.Tensor: its kernel for MPS is of {OFFICIAL}"),
        (plant_kernel("CPU"), "aten::add.Tensor: entry "),
        (plant_function_object, "aten::add.Tensor: its table does not have the newest kernel for MPS"),
        (plant_fallback, f"fallback: that of MPS is of {OFFICIAL}"),
        (plant_stub, f": its kernel for MPS is of {OFFICIAL}"),
        (plant_guard, f"guard: that of MPS is of {OFFICIAL}"),
        (plant_interpreted, "TorchScript: aten::Generator is of libprobe.dylib"),
    ],
    ids=["kernel", "kernel of another key", "function object", "fallback", "stub", "guard", "interpreter"],
)
def test_wrong_entry_is_seen(loaded: Loaded, plant: Plant, said: str) -> None:
    plant(loaded, taken_over(loaded))
    found = read_again(loaded).findings()
    assert any(said in each for each in found), found
    seen(loaded, f"wrong entry: {said.strip()}")


@pytest.mark.parametrize(("what", "table"), [("hooks", HOOKS), ("generator", GENERATOR)])
def test_wrong_object_is_seen(loaded: Loaded, what: str, table: str) -> None:
    """The official virtual functions in ours' place. Those of the generator are not there before it was asked for."""
    result = taken_over(loaded)
    # A table begins with two words that are no functions.
    loaded.machine.write_word(loaded.probe.call(what), loaded.process.image(OFFICIAL).address(table) + 16)
    assert [each for each in result.asked_findings() if what in each] == [f"the {what} are of {OFFICIAL}"]
    seen(loaded, f"official {what}")


# Where each kind of registration begins, and where it leads to the next one.
LIBRARIES, POINTERS = "__ZN15torch_mps_graph12_GLOBAL__N_113first_libraryE", "__ZN15torch_mps_graph12_GLOBAL__N_113first_pointerE"
NEXT = {LIBRARIES: 40, POINTERS: 8}


def blocks(loaded: Loaded, kind: str) -> list[int]:
    """Where the pointers are that lead to the library's registrations."""
    place = loaded.own.address(kind)
    found = []
    while block := loaded.machine.word(place):
        found.append(place)
        place = block + NEXT[kind]
    return found


@pytest.mark.parametrize("kind", [LIBRARIES, POINTERS], ids=["kernels", "pointers"])
def test_dropped_registration_is_seen(loaded: Loaded, kind: str) -> None:
    """Each block of kernels and each pointer, one after the other."""
    count = len(blocks(loaded, kind))
    assert count > 2
    for number in range(count):
        loaded.machine.restore(loaded.snapshot)
        place = blocks(loaded, kind)[number]
        loaded.machine.write_word(place, loaded.machine.word(loaded.machine.word(place) + NEXT[kind]))
        assert len(blocks(loaded, kind)) == count - 1
        result = taken_over(loaded)
        assert result.findings() or FURTHER not in result.taken, number
    seen(loaded, f"{count} dropped registrations of {'kernels' if kind == LIBRARIES else 'pointers'}")


# Refusals


def flip(loaded: Loaded, place: int) -> None:
    loaded.machine.write(place, bytes([loaded.machine.read(place, 1)[0] ^ 1]))


def flip_table(loaded: Loaded) -> None:
    flip(loaded, loaded.before.operators["aten::add.Tensor"].place)


def flip_stub(loaded: Loaded) -> None:
    flip(loaded, loaded.probe.stub_place("where_kernel"))


def flip_guard(loaded: Loaded) -> None:
    registry = loaded.process.image("libc10.dylib").address("__ZN3c104impl26device_guard_impl_registryE")
    flip(loaded, registry + 8 * MPS_DEVICE)


def flip_fallback(loaded: Loaded) -> None:
    flip(loaded, loaded.before.fallback_places[loaded.before.keys[MPS]])


def set_allocator(loaded: Loaded) -> None:
    function = loaded.process.image("libc10.dylib").address("__ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh")
    loaded.machine.call(function, MPS_DEVICE, loaded.machine.data("an allocator"), 0)


def replace_interpreted(loaded: Loaded) -> None:
    loaded.probe.call("plant_interpreted")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (flip_table, "aten::add.Tensor differs"),
        (flip_stub, "where_kernel differs"),
        (flip_guard, "the guards differ"),
        (flip_fallback, "the fallback of MPS differs"),
        (set_allocator, "the allocators differ"),
        (replace_interpreted, "the interpreter's operators differ"),
    ],
)
def test_one_difference_is_seen(loaded: Loaded, change: Callable[[Loaded], None], said: str) -> None:
    change(loaded)
    assert differences(loaded.before, loaded.probe.tables()) == [said]
    seen(loaded, f"one byte: {said}")


def plant_signature(loaded: Loaded) -> None:
    loaded.probe.call("plant_signature", loaded.own.address(LIBRARIES))


def plant_uuid(loaded: Loaded) -> None:
    official = loaded.process.image(OFFICIAL)
    place = official.base + official.file.uuid_offset
    loaded.machine.write(place, bytes(byte ^ 1 for byte in loaded.machine.read(place, 16)))


def plant_stream(loaded: Loaded) -> None:
    place = loaded.process.image(OFFICIAL).address("__ZN2at3mps13MPSStreamImpl7_streamE")
    loaded.machine.write_word(place, loaded.machine.data("a stream"))


def plant_question(loaded: Loaded) -> None:
    loaded.probe.call("hooks")


def nothing(_loaded: Loaded) -> None:
    pass


@pytest.mark.parametrize(
    ("plant", "step", "said"),
    [
        (plant_signature, STEP_TAKE_OVER, "its kernels could not be registered: "),
        (plant_uuid, STEP_TAKE_OVER, "libtorch_cpu is not the one that this library was linked with (/v/lib/"),
        (plant_stream, STEP_TAKE_OVER, "the official MPS backend has already been used in this process"),
        (plant_question, STEP_TAKE_OVER, "the MPS device had been asked for before this library was loaded"),
        (nothing, STEP_STAND_BY, None),
    ],
    ids=["wrong signature", "another UUID", "stream exists", "asked before", "disabled"],
)
def test_refusal_leaves_all_as_it_was(
    loaded: Loaded, plant: Callable[[Loaded], None], step: int, said: str | None
) -> None:
    plant(loaded)
    answer = loaded.load_step(step)
    assert (answer is None) if said is None else (answer or "").startswith(said), answer
    assert differences(loaded.before, loaded.probe.tables()) == []
    assert (loaded.probe.hooks_owner(), loaded.probe.generator_owner()) == (OFFICIAL, OFFICIAL)
    assert loaded.probe.interpreted_owners("aten::Generator") == [OFFICIAL]
    loaded.report.setdefault("refusals", []).append(answer or "disabled")


def test_late_failure_leaves_all_as_it_was(loaded: Loaded) -> None:
    """The interpreter's operator is put back as a copy, at another place."""
    loaded.probe.call("plant_late_failure", loaded.own.address(LIBRARIES))
    assert loaded.load_step(STEP_TAKE_OVER) == "its kernels could not be registered: planted"
    assert differences(loaded.before, loaded.probe.tables()) == ["the interpreter's operators differ"]
    assert (loaded.probe.hooks_owner(), loaded.probe.generator_owner()) == (OFFICIAL, OFFICIAL)
    assert loaded.probe.interpreted_owners("aten::Generator") == [OFFICIAL]
    loaded.report.setdefault("refusals", []).append("late failure")


def test_what_is_not_put_back_is_seen(loaded: Loaded) -> None:
    """The one step that the library relies on not to fail: by then the official fallback is gone."""
    loaded.probe.call("plant_fallback", loaded.own.address(LIBRARIES))
    assert loaded.load_step(STEP_TAKE_OVER) == "its kernels could not be registered: planted"
    found = differences(loaded.before, loaded.probe.tables())
    assert "the fallback of MPS differs" in found and len(found) > 1
    seen(loaded, "a fallback that is not put back")
