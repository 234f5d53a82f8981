"""What a program is, and how hypothesis draws one."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st
from subjects import KINDS

ENTRIES = ("eager", "captured", "graphed", "graphed together", "compiled", "compiled dynamic", "compiled views")


class Use(NamedTuple):
    """A module or function, and the way in which the program uses it."""

    kind: str
    entry: str
    evaluates: bool = False
    input_gradients: bool = False
    adam: bool = False
    frozen: bool = False

    def __str__(self) -> str:
        words = ["in eval mode"] if self.evaluates else []
        words += ["with gradients of its input"] if self.input_gradients else []
        words += ["first parameter frozen"] if self.frozen else []
        words += ["with AdamW"] if self.adam else []
        return f"{self.kind}, {self.entry}" + "".join(f", {word}" for word in words)


class Step(NamedTuple):
    """What is done, with two small numbers that choose among what is there."""

    name: str
    a: int
    b: int


class Program(NamedTuple):
    uses: tuple[Use, ...]
    steps: tuple[Step, ...]


# How often a step is drawn. The first are what shrinking leads to.
WEIGHTS = {
    "forward": 9,
    "backward": 9,
    "train": 4,
    "forward_no_grad": 2,
    "other_shape": 2,
    "autocast": 2,
    "update": 3,
    "optimizer": 2,
    "zero_grad": 2,
    "capture": 4,
    "capture_training": 2,
    "replay": 5,
    "use": 3,
    "derive": 3,
    "drop": 1,
    "keep_gradient": 1,
    "inputs": 1,
    "copy": 2,
    "averaged": 1,
    "ema": 1,
    "functional": 2,
    "mode": 2,
    "replace": 2,
    "freeze": 1,
    "load": 1,
    "static": 2,
    "second_order": 1,
    "threads": 2,
}
_uses = st.builds(
    Use,
    st.sampled_from([*KINDS[:-1], *KINDS]),
    st.sampled_from([*ENTRIES[:2], *ENTRIES[2:4] * 2, *ENTRIES[4:]]),
    *(st.booleans() for _ in range(4)),
)
_steps = st.builds(
    Step,
    st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)]),
    st.integers(0, 7),
    st.integers(0, 7),
)
# A list has five elements on average, a program three lists.
_part = st.lists(_steps, max_size=14)
programs = st.builds(
    lambda uses, *parts: Program(tuple(uses), tuple(step for part in parts for step in part)),
    st.lists(_uses, min_size=1, max_size=3),
    _part,
    _part,
    _part,
)
