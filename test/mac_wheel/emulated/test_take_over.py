"""The take-over on the Mac's own code: every table names the library that it should, and a refusal leaves all as it was."""

from collections.abc import Callable

import pytest
from conftest import Loaded

from mac_code.macho import INITIALIZERS
from mac_code.tables import differences, findings, KERNEL, MPS, MPS_DEVICE, OFFICIAL

TAKE_OVER, STAND_BY = 0, 3
# Registered by scripts/mac_wheel/takeover/copy.cpp.
FURTHER = {"aten::copy_"}
# Where the library's deferred registrations begin, and where each leads to the next one.
LIBRARIES = "__ZN15torch_mps_graph12_GLOBAL__N_113first_libraryE"
POINTERS = "__ZN15torch_mps_graph12_GLOBAL__N_113first_pointerE"
NEXT = {LIBRARIES: 40, POINTERS: 8}
Plant = Callable[[Loaded], None]


def wrong_entries(loaded: Loaded) -> list[str]:
    """What the tables say that they must not after the take-over."""
    after = loaded.probe.tables()
    found = list(findings(loaded.probe, loaded.own.name, loaded.before, after))
    if after.of_key(MPS) - loaded.before.of_key(MPS) != FURTHER:
        found.append("other operators are new for MPS")
    return found


def test_every_initializer_runs(loaded: Loaded) -> None:
    for name in ("libc10.dylib", OFFICIAL, loaded.own.name):
        image = loaded.process.image(name)
        wanted = sum(section.size for section in image.file.sections_of(INITIALIZERS)) // 8
        assert image.initialized == wanted > 0, name


def test_loading_registers_nothing(loaded: Loaded) -> None:
    assert differences(loaded.before, loaded.probe.tables()) == []


def test_take_over(loaded: Loaded) -> None:
    # A second call returns what the first did.
    for _ in range(2):
        assert loaded.load_step(TAKE_OVER) == ""
        assert wrong_entries(loaded) == []
    assert set(loaded.probe.asked_owners().values()) == {loaded.own.name}
    after = loaded.probe.tables()
    assert len(after.of_key(MPS)) > 700 and len(after.mps_stubs) > 10 and len(after.of_key("AutocastMPS")) > 50
    loaded.report |= {
        "operators": len(after.operators),
        "operators_of_autocast_unchanged": len(after.of_key("AutocastMPS")),
        "operators_of_torchscript": len(after.interpreted),
        "operators_taken_over": sorted(after.of_key(MPS)),
        "stubs": len(after.stubs),
        "stubs_taken_over": sorted(after.mps_stubs),
    }


# Faults in the tables


def slot(loaded: Loaded, key: str) -> int:
    """Where an operator has its kernel for a key."""
    return loaded.before.operators["aten::add.Tensor"].place + KERNEL * loaded.before.keys[key]


def official_kernel(loaded: Loaded) -> None:
    content = loaded.before.operators["aten::add.Tensor"].slot(loaded.before.keys[MPS])
    loaded.machine.write(slot(loaded, MPS), content)


def official_object(loaded: Loaded) -> None:
    content = loaded.before.operators["aten::add.Tensor"].slot(loaded.before.keys[MPS])
    loaded.machine.write(slot(loaded, MPS), content[:8])


def other_kernel(loaded: Loaded) -> None:
    loaded.machine.write(
        slot(loaded, "CPU"), loaded.before.operators["aten::sub.Tensor"].slot(loaded.before.keys["CPU"])
    )


def official_fallback(loaded: Loaded) -> None:
    number = loaded.before.keys[MPS]
    loaded.machine.write(loaded.before.fallback_places[number], loaded.before.fallbacks[number])


def official_stub(loaded: Loaded) -> None:
    function = loaded.process.image(OFFICIAL).address("__ZN2at6detail11getMPSHooksEv")
    loaded.machine.write_word(loaded.probe.stub_place("where_kernel"), function)


def guard_place(loaded: Loaded) -> int:
    registry = loaded.process.image("libc10.dylib").address("__ZN3c104impl26device_guard_impl_registryE")
    return registry + 8 * MPS_DEVICE


def official_guard(loaded: Loaded) -> None:
    loaded.machine.write_word(guard_place(loaded), loaded.before.guards[MPS_DEVICE])


def other_operator(loaded: Loaded) -> None:
    loaded.probe.call("plant_generator_operator")


def other_allocator(loaded: Loaded) -> None:
    function = loaded.process.image("libc10.dylib").address("__ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh")
    loaded.machine.call(function, MPS_DEVICE, loaded.machine.data("an allocator"), 0)


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (official_kernel, f"aten::add.Tensor: its kernel for MPS is of {OFFICIAL}"),
        (official_object, "aten::add.Tensor: its table does not have the newest kernel for MPS"),
        (other_kernel, "aten::add.Tensor: entry "),
        (official_fallback, f" is of {OFFICIAL}"),
        (official_stub, f"where_kernel: its kernel for MPS is of {OFFICIAL}"),
        (official_guard, f"the guard of device {MPS_DEVICE} is of {OFFICIAL}"),
        (other_operator, "TorchScript's aten::Generator is of libprobe.dylib"),
        (other_allocator, "c10's allocators differ"),
    ],
)
def test_wrong_entry_is_seen(loaded: Loaded, plant: Plant, said: str) -> None:
    assert loaded.load_step(TAKE_OVER) == ""
    plant(loaded)
    found = wrong_entries(loaded)
    assert any(said in each for each in found), found
    loaded.seen(f"{plant.__name__}: {found[0]}")


@pytest.mark.parametrize(
    ("what", "table"), [("hooks", "__ZTVN2at3mps8MPSHooksE"), ("generator", "__ZTVN2at16MPSGeneratorImplE")]
)
def test_wrong_object_is_seen(loaded: Loaded, what: str, table: str) -> None:
    assert loaded.load_step(TAKE_OVER) == ""
    # A table of virtual functions begins with two other words.
    loaded.machine.write_word(loaded.probe.call(what), loaded.process.image(OFFICIAL).address(table) + 16)
    assert loaded.probe.asked_owners()[what] == OFFICIAL
    loaded.seen(f"official {what}")


def registrations(loaded: Loaded, kind: str) -> list[int]:
    """Where the pointers to the library's registrations are."""
    found = [loaded.own.address(kind)]
    while block := loaded.machine.word(found[-1]):
        found.append(block + NEXT[kind])
    return found[:-1]


@pytest.mark.parametrize("kind", [LIBRARIES, POINTERS], ids=["kernels", "pointers"])
def test_each_dropped_registration_is_seen(loaded: Loaded, kind: str) -> None:
    count = len(registrations(loaded, kind))
    assert count > 2
    for number in range(count):
        loaded.machine.restore(loaded.snapshot)
        place = registrations(loaded, kind)[number]
        loaded.machine.write_word(place, loaded.machine.word(loaded.machine.word(place) + NEXT[kind]))
        assert loaded.load_step(TAKE_OVER) == ""
        found = wrong_entries(loaded)
        assert found, number
        loaded.seen(f"dropped registration: {found[0]}, and {len(found) - 1} more")


# Refusals


def flipped_byte(loaded: Loaded) -> None:
    loaded.machine.view(slot(loaded, "CPU"), 1)[0] ^= 1


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (flipped_byte, "aten::add.Tensor differs"),
        (official_stub, "where_kernel differs"),
        (lambda loaded: loaded.machine.write_word(guard_place(loaded), 0), "the guards differ"),
        (
            lambda loaded: loaded.machine.write(loaded.before.fallback_places[0], b"1"),
            "the fallback of Undefined differs",
        ),
        (other_allocator, "the allocators differ"),
        (other_operator, "the operators of TorchScript differ"),
    ],
    ids=["operator", "stub", "guard", "fallback", "allocator", "TorchScript"],
)
def test_one_difference_is_seen(loaded: Loaded, plant: Plant, said: str) -> None:
    plant(loaded)
    assert differences(loaded.before, loaded.probe.tables()) == [said]
    loaded.seen(f"one difference: {said}")


def other_uuid(loaded: Loaded) -> None:
    official = loaded.process.image(OFFICIAL)
    loaded.machine.view(official.base + official.file.uuid_offset, 1)[0] ^= 1


def stream(loaded: Loaded) -> None:
    place = loaded.process.image(OFFICIAL).address("__ZN2at3mps13MPSStreamImpl7_streamE")
    loaded.machine.write_word(place, loaded.machine.data("a stream"))


@pytest.mark.parametrize(
    ("plant", "step", "said"),
    [
        ("signature", TAKE_OVER, "its kernels could not be registered: \nMismatch in kernel C++ signatures"),
        (other_uuid, TAKE_OVER, "libtorch_cpu is not the one that this library was linked with (/v/lib/"),
        (stream, TAKE_OVER, "the official MPS backend has already been used in this process"),
        (lambda loaded: loaded.probe.call("hooks"), TAKE_OVER, "the MPS device had been asked for before"),
        (lambda loaded: None, STAND_BY, ""),
        ("late_failure", TAKE_OVER, "its kernels could not be registered: planted"),
    ],
    ids=["wrong signature", "another UUID", "stream exists", "asked before", "disabled", "late failure"],
)
def test_refusal_leaves_all_as_it_was(loaded: Loaded, plant: Plant | str, step: int, said: str) -> None:
    if isinstance(plant, str):
        loaded.probe.call(f"plant_{plant}", loaded.own.address(LIBRARIES))
    else:
        plant(loaded)
    answer = loaded.load_step(step)
    assert answer.startswith(said) and bool(answer) == bool(said), answer
    # After the last one, TorchScript's operator is a copy at another place.
    allowed = ["the operators of TorchScript differ"] if plant == "late_failure" else []
    assert differences(loaded.before, loaded.probe.tables()) == allowed
    assert loaded.probe.asked_owners() == {"hooks": OFFICIAL, "generator": OFFICIAL}
    assert loaded.probe.generator_operators() == [OFFICIAL]
    loaded.report.setdefault("refusals", []).append(answer or "disabled")


def test_what_is_not_put_back_is_seen(loaded: Loaded) -> None:
    """The one step that the library relies on not to fail: by then the official fallback is gone."""
    loaded.probe.call("plant_fallback", loaded.own.address(LIBRARIES))
    assert loaded.load_step(TAKE_OVER) == "its kernels could not be registered: planted"
    assert "the fallback of MPS differs" in differences(loaded.before, loaded.probe.tables())
    loaded.seen("a fallback that is not put back")
