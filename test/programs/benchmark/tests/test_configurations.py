"""The data file, and what builds what it names."""

import inspect

import pytest
import torch
from benchmark.configurations import CATEGORIES, choose, Configuration, load
from benchmark.families import builder
from benchmark.modes import in_step


def test_there_are_a_hundred_in_all_categories() -> None:
    configurations = load()
    assert len({one.name for one in configurations}) == len(configurations) == 100
    assert {one.category for one in configurations} == set(CATEGORIES)
    named = {"tiny-llm-128-L64", "tiny-llm-256-L128", "qwen3-0.5b", "flux-s64"}
    assert named <= {one.name for one in configurations}


def test_ten_are_quick_and_in_all_categories_but_the_large_ones() -> None:
    quick = choose(load(), (), quick=True)
    assert len(quick) == 10
    assert {one.category for one in quick} == set(CATEGORIES) - {"GPU-bound"}


def test_builders_take_what_the_file_gives() -> None:
    for one in load():
        signature = inspect.signature(builder(one.family))
        for simulated in (False, True):
            signature.bind("mps", **one.parameters_for(simulated))


def test_note_names_shared_layers_and_what_is_smaller() -> None:
    flux = choose(load(), ("flux-s64",), quick=False)[0]
    assert flux.note(simulated=False) == "layers share the weights of 1"
    assert flux.note(simulated=True) == "layers share the weights of 1; width 192, heads 6"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no configuration resnet19; --list shows all"):
        choose(load(), ("resnet18", "resnet19"), quick=False)


# Those that the simulator runs smaller; training differs by its batches alone, and optimizers take no meta tensors.
SMALLER = [one for one in load() if one.simulated and not one.family.startswith("training")]


@pytest.mark.parametrize("one", SMALLER, ids=lambda one: one.name)
def test_shapes_fit_at_a_devices_sizes(one: Configuration) -> None:
    """Meta tensors show at little cost whether a device could run them."""
    with torch.device("meta"):
        case = builder(one.family)("meta", **one.parameters_for(simulated=False))
        with in_step(case):
            outputs = case.step()
    assert outputs
