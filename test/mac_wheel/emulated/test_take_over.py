"""The take-over on the Mac's own code: every table names the library that it should, and a refusal leaves all as it was."""

from collections.abc import Callable

import pytest

from mac_code.loaded import Loaded
from mac_code.machine import Stopped
from mac_code.macho import INITIALIZERS
from mac_code.tables import differences, findings, KERNEL, MPS, MPS_DEVICE, OFFICIAL

TAKE_OVER, STAND_BY = 0, 3
ADD = "aten::add.Tensor"
HOOKS, GENERATOR = "__ZTVN2at3mps8MPSHooksE", "__ZTVN2at16MPSGeneratorImplE"
# Registered by scripts/mac_wheel/takeover/copy.cpp.
FURTHER = {"aten::copy_"}
# Where the library's deferred registrations begin, and where each leads to the next one.
LIBRARIES = "__ZN15torch_mps_graph12_GLOBAL__N_113first_libraryE"
POINTERS = "__ZN15torch_mps_graph12_GLOBAL__N_113first_pointerE"
NEXT = {LIBRARIES: 40, POINTERS: 8}
# What the probe can plant among these.
WRONG_SIGNATURE, LATE_FAILURE, WRONG_FALLBACK = 0, 1, 2
Plant = Callable[[Loaded], None]


def wrong_entries(loaded: Loaded) -> list[str]:
    """What the tables say that they must not after the take-over."""
    after = loaded.probe.tables()
    found = list(findings(loaded.probe, loaded.own.name, loaded.before, after))
    new = after.of_key(MPS) - loaded.before.of_key(MPS)
    if new != FURTHER:
        found.append(f"new for MPS are {', '.join(sorted(new)) or 'no operators'}")
    owners = loaded.probe.asked_owners()
    return found + [f"the {what} are of {owner}" for what, owner in owners.items() if owner != loaded.own.name]


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


def test_warning_is_seen(loaded: Loaded) -> None:
    """It would stop the take-over, as every print does. The library recognizes it by its text, which is another one here."""
    memory = loaded.process.image(OFFICIAL).memory
    place = bytes(memory).index(b"Overriding a previously registered kernel")
    memory[place] = ord("o")
    try:
        # A message begins with the time.
        with pytest.raises(Stopped, match=r"_time was called, .* from libc10.dylib __ZN3c1013MessageLogger"):
            loaded.load_step(TAKE_OVER)
    finally:
        memory[place] = ord("O")
    loaded.seen("a warning of overridden kernels")


def other_kernel(loaded: Loaded, name: str, key: str, size: int = KERNEL) -> None:
    """Give ADD the kernel that an operator had for a key, or the begin of it."""
    operators, number = loaded.before.operators, loaded.before.keys[key]
    place = operators[ADD].place + KERNEL * number
    loaded.machine.write(place, operators[name].slot(number)[:size])


def other_fallback(loaded: Loaded) -> None:
    keys, fallbacks = loaded.before.keys, loaded.before.fallbacks
    loaded.machine.write(loaded.before.fallback_places[keys[MPS]], fallbacks[keys["AutocastMPS"]])


def other_stub(loaded: Loaded) -> None:
    function = loaded.process.image(OFFICIAL).address("__ZN2at6detail11getMPSHooksEv")
    loaded.machine.write_word(loaded.probe.stub_place("where_kernel"), function)


def other_guard(loaded: Loaded) -> None:
    registry = loaded.process.image("libc10.dylib").address("__ZN3c104impl26device_guard_impl_registryE")
    loaded.machine.write_word(registry + 8 * MPS_DEVICE, loaded.before.guards[0])


def other_allocator(loaded: Loaded) -> None:
    function = loaded.process.image("libc10.dylib").address("__ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh")
    loaded.machine.call(function, MPS_DEVICE, loaded.machine.data("an allocator"), 0)


def official_object(loaded: Loaded, what: str, table: str) -> None:
    # A table of virtual functions begins with two other words.
    loaded.machine.write_word(loaded.probe.call(what), loaded.process.image(OFFICIAL).address(table) + 16)


@pytest.mark.parametrize(
    ("plant", "finding", "difference"),
    [
        (lambda loaded: other_kernel(loaded, ADD, MPS), f"{ADD}: its kernel for MPS is of {OFFICIAL}", ""),
        (lambda loaded: other_kernel(loaded, ADD, MPS, 8), f"{ADD}: its kernel for MPS is of {OFFICIAL}", ""),
        (lambda loaded: other_kernel(loaded, "aten::sub.Tensor", "CPU"), f"{ADD}: entry ", f"{ADD} differs"),
        (other_fallback, f"the fallback of MPS is of {OFFICIAL}", "the fallback of MPS differs"),
        (other_stub, f"where_kernel: its kernel for MPS is of {OFFICIAL}", "where_kernel differs"),
        (other_guard, f"the guard of device {MPS_DEVICE} is of ", "the guards differ"),
        (other_allocator, "c10's allocators differ", "the allocators differ"),
        (
            lambda loaded: loaded.probe.call("plant_generator_operator"),
            "TorchScript's aten::Generator is of libprobe.dylib",
            "the operators of TorchScript differ",
        ),
        (lambda loaded: official_object(loaded, "hooks", HOOKS), f"the hooks are of {OFFICIAL}", ""),
        (lambda loaded: official_object(loaded, "generator", GENERATOR), f"the generator are of {OFFICIAL}", ""),
    ],
)
def test_planted_entry_is_seen(loaded: Loaded, plant: Plant, finding: str, difference: str) -> None:
    """After the take-over, and where nothing was to change."""
    if difference:
        plant(loaded)
        assert differences(loaded.before, loaded.probe.tables()) == [difference]
        loaded.machine.restore(loaded.snapshot)
    assert loaded.load_step(TAKE_OVER) == ""
    plant(loaded)
    found = [each for each in wrong_entries(loaded) if finding in each]
    assert found, wrong_entries(loaded)
    loaded.seen(found[0])


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


def other_uuid(loaded: Loaded) -> None:
    official = loaded.process.image(OFFICIAL)
    loaded.machine.view(official.base + official.file.uuid_offset, 1)[0] ^= 1


def stream(loaded: Loaded) -> None:
    place = loaded.process.image(OFFICIAL).address("__ZN2at3mps13MPSStreamImpl7_streamE")
    loaded.machine.write_word(place, loaded.machine.data("a stream"))


@pytest.mark.parametrize(
    ("plant", "step", "said"),
    [
        (WRONG_SIGNATURE, TAKE_OVER, "its kernels could not be registered: \nMismatch in kernel C++ signatures"),
        (other_uuid, TAKE_OVER, "libtorch_cpu is not the one that this library was linked with (/v/lib/"),
        (stream, TAKE_OVER, "the official MPS backend has already been used in this process"),
        (lambda loaded: loaded.probe.call("hooks"), TAKE_OVER, "the MPS device had been asked for before"),
        (lambda loaded: None, STAND_BY, ""),
        (LATE_FAILURE, TAKE_OVER, "its kernels could not be registered: planted"),
    ],
    ids=["wrong signature", "another UUID", "stream exists", "asked before", "disabled", "late failure"],
)
def test_refusal_leaves_all_as_it_was(loaded: Loaded, plant: Plant | int, step: int, said: str) -> None:
    if isinstance(plant, int):
        loaded.probe.call("plant", loaded.own.address(LIBRARIES), plant)
    else:
        plant(loaded)
    answer = loaded.load_step(step)
    assert answer.startswith(said) and bool(answer) == bool(said), answer
    # After the last one, TorchScript's operator is a copy at another place.
    allowed = ["the operators of TorchScript differ"] if plant == LATE_FAILURE else []
    assert differences(loaded.before, loaded.probe.tables()) == allowed
    assert loaded.probe.asked_owners() == {"hooks": OFFICIAL, "generator": OFFICIAL}
    assert loaded.probe.generator_operators() == [OFFICIAL]
    loaded.report.setdefault("refusals", []).append(answer or "disabled")


def test_what_is_not_put_back_is_seen(loaded: Loaded) -> None:
    """The one step that the library relies on not to fail: by then the official fallback is gone."""
    loaded.probe.call("plant", loaded.own.address(LIBRARIES), WRONG_FALLBACK)
    assert loaded.load_step(TAKE_OVER) == "its kernels could not be registered: planted"
    assert "the fallback of MPS differs" in differences(loaded.before, loaded.probe.tables())
    loaded.seen("a fallback that is not put back")
