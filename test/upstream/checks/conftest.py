"""What each of these tests needs: the patched checkout, and upstream's tools in an environment of their own."""

import pytest

from checked_tree import CHECKOUT, TOOLS


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Says what is missing before a test module wants to read it."""
    if not (CHECKOUT / ".lintrunner.toml").exists():
        pytest.exit(f"{CHECKOUT} is no checkout of PyTorch: run `make apply`", returncode=2)
    if not (TOOLS / "bin" / "flake8").exists():
        pytest.exit(
            f"upstream's tools are not in {TOOLS}: run `scripts/mpsfork test 'upstream checks'`, which installs them",
            returncode=2,
        )
