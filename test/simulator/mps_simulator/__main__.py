"""Runs a Python program on the simulated MPS device.

Usage: python -m mps_simulator [options] (script.py | -m module | -c code) [arguments …]
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from mps_simulator import install, SimulatorError
from mps_simulator._build import read_build
from mps_simulator._sanitizer import preload


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mps_simulator",
        description="Runs a Python program on the simulated MPS device.",
        usage="%(prog)s [options] (script.py | -m module | -c code) [arguments ...]",
    )
    parser.add_argument("--build", type=Path, metavar="DIR", help="use the build in this directory")
    parser.add_argument("--macos", metavar="15.2", help="macOS version to simulate")
    parser.add_argument("--gpu-family", type=int, choices=(7, 8, 9), help="Apple's GPU family to simulate")
    parser.add_argument("--null-mode", action="store_true", help="encode commands without executing them")
    parser.add_argument("--no-validation", action="store_true", help="do not check the use of the API")
    parser.add_argument(
        "--no-order", action="store_true", help="do not check the order of GPU commands on the same memory"
    )
    parser.add_argument("--delay-us", type=int, metavar="N", help="longest random pause of the GPU")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the pauses")
    # What follows the program is its own, dashes included.
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module")
    parser.add_argument("-c", dest="code", nargs=argparse.REMAINDER, metavar="code", help="run a string")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    """Sets the environment, installs the simulator and runs the program."""
    parser = _parser()
    options = parser.parse_args()
    program = options.module or options.code or options.rest
    if not program:
        parser.error("no program given")

    environment = {
        "MPS_SIMULATOR_BUILD": options.build and options.build.resolve(),
        "MPS_SIMULATOR_MACOS": options.macos,
        "MPS_SIMULATOR_GPU_FAMILY": options.gpu_family,
        "MPS_SIMULATOR_NULL_MODE": "1" if options.null_mode else None,
        "MPS_SIMULATOR_VALIDATION": "0" if options.no_validation else None,
        "MPS_SIMULATOR_ORDER": "0" if options.no_order else None,
        "MPS_SIMULATOR_DELAY_US": options.delay_us,
        "MPS_SIMULATOR_SEED": options.seed,
    }
    for name, value in environment.items():
        if value is not None:
            os.environ[name] = str(value)
    try:
        preload(read_build())
        install()
    except SimulatorError as error:
        sys.exit(f"error: {error}")

    # As the interpreter itself would start the program.
    if options.module:
        sys.argv = program
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    elif options.code:
        sys.argv = ["-c", *program[1:]]
        sys.path.insert(0, "")
        exec(compile(program[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = program
        if not os.path.exists(program[0]):
            sys.exit(f"error: there is no file {program[0]}")
        sys.path.insert(0, str(Path(program[0]).resolve().parent))
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
