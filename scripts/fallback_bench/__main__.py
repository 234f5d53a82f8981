"""Runs the bench as `python -m fallback_bench`."""

from fallback_bench.cli import main

main()
