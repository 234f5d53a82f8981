"""What a program is, and how hypothesis draws one."""

from typing import NamedTuple

from hypothesis import strategies as st
from subjects import KINDS

ENTRIES = ("eager", "captured", "graphed", "graphed together", "compiled", "compiled dynamic", "compiled views")


class Use(NamedTuple):
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
# Traces of these are not worth their time.
_NOT_COMPILED = ("convolution", "writes")


def _use(kind: str, entry: str, *flags: bool) -> Use:
    return Use(KINDS[0] if entry.startswith("compiled") and kind in _NOT_COMPILED else kind, entry, *flags)


_uses = st.builds(
    _use,
    st.sampled_from([*KINDS[:-1], *KINDS]),
    st.sampled_from([*ENTRIES[:4], *ENTRIES[2:4], *ENTRIES]),
    *(st.booleans() for _ in range(4)),
)
# Steps that belong together, on one subject. A backward pass takes the oldest forward pass that is left.
PHRASES: dict[str, tuple[str, ...]] = {
    "1f1b": ("train", "forward", "forward", "backward", "forward", "backward", "backward"),
    "zero_grad between": ("train", "forward", "forward", "backward", "zero_grad", "backward"),
    "change between": ("forward", "update", "backward"),
    "replay between": ("capture", "forward", "replay", "backward"),
}
_NAMES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]


def _expand(name: str, a: int, b: int) -> tuple[Step, ...]:
    names = PHRASES.get(name, (name,))
    if len(names) == 1:
        return (Step(name, a, b),)
    return tuple(Step(n, 0 if n == "backward" else a, (b + i) % 8) for i, n in enumerate(names))


_steps = st.builds(_expand, st.sampled_from([*_NAMES, *PHRASES]), st.integers(0, 7), st.integers(0, 7))
# A list has five elements on average, a program three lists.
_part = st.lists(_steps, max_size=14)
programs = st.builds(
    lambda uses, *parts: Program(tuple(uses), tuple(step for part in parts for steps in part for step in steps)),
    st.lists(_uses, min_size=1, max_size=3),
    _part,
    _part,
    _part,
)
