"""Upstream's runner finds the new test files, runs them where it runs MPS, and leaves them alone elsewhere."""

from checked_tree import CHECKOUT, output_of, overlay_files

TESTS = sorted(
    path.removeprefix("test/").removesuffix(".py") for path in overlay_files(".py") if path.startswith("test/test_")
)
# A run of no test writes times and caches; none of this does.
_SELECT = """
import sys
# The checkout has a torch without its library; the runner puts itself in front when it has the other.
import torch
sys.path[:0] = [{checkout!r}, {tests!r}]
sys.argv = ["run_test.py", *{words!r}]
import run_test
print("\\n".join(run_test.get_selected_tests(run_test.parse_args())))
"""


def selected(*words: str) -> list[str]:
    program = _SELECT.format(checkout=str(CHECKOUT), tests=str(CHECKOUT / "test"), words=words)
    return output_of(program, simulated=False).splitlines()


def test_discovery() -> None:
    assert len(TESTS) > 5
    program = (
        f"import sys; sys.path[:0] = [{str(CHECKOUT)!r}]\n"
        "from tools.testing.discover_tests import TESTS\nprint(*TESTS, sep='\\n')"
    )
    found = output_of(program, simulated=False).splitlines()
    assert [name for name in TESTS if found.count(name) != 1] == []


def test_runs_with_mps() -> None:
    """What the job on upstream's Macs runs."""
    found = selected("--mps")
    assert [name for name in [*TESTS, "test_mps", "test_metal", "test_nn"] if found.count(name) != 1] == []


def test_not_without_mps() -> None:
    """They would fail without a device, or be skipped."""
    found = selected()
    assert "test_torch" in found
    assert [name for name in found if name in TESTS or name in ("test_mps", "test_metal")] == []
