"""The version of this repository, as base.toml has it: for pyproject.toml, where nothing else is installed yet."""

import tomllib
from pathlib import Path

_PIN = tomllib.loads((Path(__file__).resolve().parents[2] / "base.toml").read_text("utf-8"))

VERSION = f"{_PIN['wheel']['version']}+mps.{_PIN['release']['number']}"
