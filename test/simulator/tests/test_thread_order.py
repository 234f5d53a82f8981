"""Threads of a kernel run in an order that Metal leaves open: here in another one each time."""

from __future__ import annotations

import pytest
import torch

from mps_simulator._control import restart_thread_orders

SOURCE = """
#include <metal_stdlib>
using namespace metal;

// The fault: the last thread to write wins.
kernel void last_comes(device int* out, uint index [[thread_position_in_grid]]) {
  out[0] = index;
}

kernel void last_group_comes(
    device int* out,
    uint index [[thread_position_in_grid]],
    uint group [[threadgroup_position_in_grid]]) {
  out[0] = group;
}

kernel void last_simdgroup_comes(
    device int* out,
    uint index [[thread_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  out[0] = simd_max(simdgroup);
}

// Its twin.
kernel void highest_wins(device atomic_int* out, uint index [[thread_position_in_grid]]) {
  atomic_fetch_max_explicit(out, int(index), memory_order_relaxed);
}
"""

COUNT, GROUP = 4096, 256


@pytest.fixture(scope="module")
def library() -> object:
    return torch.mps._compile_shader(SOURCE)


def results(library: object, name: str, count: int = 24, group: int = GROUP) -> list[int]:
    found = []
    for _ in range(count):
        out = torch.zeros(1, dtype=torch.int32, device="mps")
        getattr(library, name)(out, threads=COUNT, group_size=group)
        found.append(int(out.item()))
    return found


@pytest.mark.parametrize(
    ("name", "group"), [("last_comes", GROUP), ("last_group_comes", GROUP), ("last_simdgroup_comes", 1024)]
)
def test_a_race_between_threads_shows(library: object, name: str, group: int) -> None:
    assert len(set(results(library, name, group=group))) > 1


def test_without_a_race_the_order_does_not_matter(library: object) -> None:
    assert set(results(library, "highest_wins")) == {COUNT - 1}


def test_every_thread_runs_once(library: object) -> None:
    source = """
    #include <metal_stdlib>
    using namespace metal;
    kernel void count(device atomic_int* out, uint3 at [[thread_position_in_grid]], uint3 size [[threads_per_grid]],
                      uint3 group [[threadgroup_position_in_grid]]) {
      atomic_fetch_add_explicit(out + at.x + size.x * (at.y + size.y * at.z), 1 + int(group.x) * 0, memory_order_relaxed);
    }
    kernel void count_plainly(device int* out, uint3 at [[thread_position_in_grid]]) {
      out[at.x + 37 * (at.y + 5 * at.z)] += 1;
    }
    """
    counting = torch.mps._compile_shader(source)
    for name in ("count", "count_plainly"):
        for _ in range(8):
            out = torch.zeros(37 * 5 * 3, dtype=torch.int32, device="mps")
            getattr(counting, name)(out, threads=(37, 5, 3), group_size=(8, 2, 2))
            assert out.cpu().eq(1).all(), name


def test_orders_can_be_had_again(library: object) -> None:
    restart_thread_orders()
    first = results(library, "last_comes")
    restart_thread_orders()
    assert results(library, "last_comes") == first


def test_functions_give_the_same_bits_in_any_order() -> None:
    """Some are computed in vectors, the rest of a row one by one, with another last bit: always the same rest."""
    for count in (16, 63, 64, 100, 1000):
        numbers = torch.linspace(-3, 3, count, device="mps")
        seen = {tuple(torch.exp(numbers).cpu().tolist()) for _ in range(16)}
        assert len(seen) == 1, count
