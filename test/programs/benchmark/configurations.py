"""Reads the data file of the configurations."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("configurations.toml")
CATEGORIES = (
    "dispatch-heavy",
    "small LLM",
    "diffusion",
    "vision",
    "speech and sentences",
    "training",
    "optimizers",
    "GPU-bound",
)


@dataclass(frozen=True)
class Configuration:
    name: str
    category: str
    family: str
    parameters: dict[str, Any]
    # what replaces parameters on the simulator
    simulated: dict[str, Any] = field(default_factory=dict)
    quick: bool = False

    def parameters_for(self, simulated: bool) -> dict[str, Any]:
        """What the builder is given."""
        return self.parameters | (self.simulated if simulated else {})

    def note(self, simulated: bool) -> str:
        """What of its sizes is not that of the model it is named after."""
        parts = []
        distinct = self.parameters_for(simulated).get("distinct")
        if distinct:
            parts.append(f"layers share the weights of {distinct}")
        smaller = {name: value for name, value in self.simulated.items() if name != "distinct"} if simulated else {}
        if smaller:
            parts.append(", ".join(f"{name} {value}" for name, value in smaller.items()))
        return "; ".join(parts)


def _both(row: Any) -> list[dict[str, Any]]:
    return [*row, {}][:2] if isinstance(row, list) else [row, {}]


def load(path: Path = DATA) -> list[Configuration]:
    """All configurations of a data file, in its order."""
    configurations = []
    data = tomllib.loads(path.read_text("utf-8"))
    quick = data.pop("quick")
    for category, families in data.items():
        if category not in CATEGORIES:
            raise ValueError(f"{path.name}: there is no category {category!r}, but: {', '.join(CATEGORIES)}.")
        for family, rows in families.items():
            shared, shared_simulated = _both(rows.pop("all", {}))
            for name, row in rows.items():
                parameters, simulated = shared | _both(row)[0], shared_simulated | _both(row)[1]
                configurations.append(Configuration(name, category, family, parameters, simulated, name in quick))
    return configurations


def choose(configurations: list[Configuration], only: tuple[str, ...], quick: bool) -> list[Configuration]:
    """Those that are named, or the quick ones, or all."""
    known = {one.name: one for one in configurations}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ValueError(f"There is no configuration {', '.join(unknown)}; --list shows all.")
    if only:
        return [known[name] for name in dict.fromkeys(only)]
    return [one for one in configurations if one.quick or not quick]
