"""The wheel that the tests look at."""

from pathlib import Path

import pytest

from fork_tool.base.checkout import open_checkout
from fork_tool.mac_library.archive import write_wheel
from fork_tool.mac_library.make import replaced_files
from fork_tool.mac_library.places import LIBRARY
from made_wheel import Made, SmallLibraries


@pytest.fixture(scope="session")
def replaced(made: Made) -> dict[str, bytes]:
    """What the wheel has otherwise than the official one."""
    bench = made.bench
    checkout = open_checkout(bench.checkout, bench.project.pin, "build/pytorch")
    return replaced_files(bench, checkout, made.official) | {f"torch/lib/{LIBRARY}": made.library.read_bytes()}


@pytest.fixture(scope="session")
def wheel(made: Made, replaced: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, written again."""
    return write_wheel(made.bench.pin, made.bench.python, made.official, replaced, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def small(made: Made, tmp_path: Path) -> SmallLibraries:
    """A place for small libraries."""
    return SmallLibraries(made, tmp_path)
