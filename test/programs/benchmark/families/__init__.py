"""What builds a configuration, by the name that the data file uses."""

from collections.abc import Callable
from importlib import import_module

from benchmark.case import Case


def builder(family: str) -> Callable[..., Case]:
    """`build_dit` of diffusion.py for `diffusion.dit`."""
    module, _, name = family.partition(".")
    found: Callable[..., Case] = getattr(import_module(f"benchmark.families.{module}"), f"build_{name}")
    return found
