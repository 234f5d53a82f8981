"""What a state program is, and how hypothesis draws one."""

from typing import NamedTuple

from hypothesis import strategies as st
from program import Program, Step
from state_subjects import BLOCKS, TRAINED

ENTRIES = ("graph", "graphed", "compiled")


class StateUse(NamedTuple):
    """A block, which of its forms, and the entry point."""

    kind: str
    entry: str
    variant: int = 0
    checks_liveness: bool = False
    as_function: bool = False

    @property
    def trains(self) -> bool:
        return self.kind in TRAINED

    def __str__(self) -> str:
        words = [f"form {self.variant}"] if self.variant else []
        words += ["check_input_liveness=True"] if self.checks_liveness and self.entry == "graph" else []
        words += ["a function without gradients"] if self.as_function else []
        return f"{self.kind}, {self.entry}" + "".join(f", {word}" for word in words)


class StateProgram(Program):
    """One block, changes, and calls."""


_ALL = tuple(BLOCKS)
# The kinds of change, by what they are for. The first are what shrinking leads to.
_CHANGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (*_ALL, *TRAINED),
        "value input offset storage data double_buffer data_transposed t transpose as_strided unsqueeze squeeze resize_smaller "
        "resize_larger data_dtype swap in_thread call_in_thread capture capture_in_thread form event relaxed",
    ),
    (_ALL, "deterministic precision grad_mode inference hook load"),
    (("linear", "direct", "norm", "sdpa"), "autocast autocast_cache"),
    (("linear", "direct"), "capture_in_autocast two_captures"),
    (("linear", "direct", "norm", "draws"), "replace requires_grad"),
    (("linear",), "parametrize"),
    (("linear", *TRAINED), "grad_none zero_grad"),
    (("direct",), "base default_dtype"),
    (("sdpa",), "math_sdp"),
    (("host", "number"), "numpy"),
    (("host",), "host_write host_data host_set host_swap host_resize host_t host_drop"),
    (("number",), "number_fill number_add number_data"),
    (("draws",), "seed rng_state other_draws generator"),
    (TRAINED, "lr scheduler add_group"),
    (("sgd", "adam"), "weight_decay"),
    (("sgd",), "momentum"),
    (("adam",), "betas"),
    (("counter",), "scale"),
)
# Each change, with the kinds that it is for.
CHANGES = {name: kinds for kinds, names in _CHANGES for name in names.split()}
_OF_KIND = {kind: [c for c, kinds in CHANGES.items() if kind in kinds] for kind in (*_ALL, *TRAINED)}
_CASTS = ("capture_in_autocast", "two_captures")
# What few kinds read comes first more often, and most often what only some of their uses show.
_RARE = (*_CASTS, "numpy", "parametrize", "replace", "requires_grad")
_FIRST = [n for n, kinds in CHANGES.items() for _ in range(6 if n in _RARE else 1 if len(kinds) > 5 else 3)]
_numbers = st.integers(0, 7)
_change = st.tuples(st.integers(0, 999), _numbers, _numbers, st.integers(0, 4))


def _program(
    use: tuple[int, str, int, bool, bool], first: tuple[str, int, int], more: list[tuple[int, int, int, int]]
) -> Program:
    """The first change chooses the block, so that each kind of change is drawn as often."""
    at, entry, variant, checks_liveness, as_function = use
    kinds = CHANGES[first[0]]
    kind = kinds[at % len(kinds)]
    entry = "graph" if kind in TRAINED else entry
    # what is cast once shows when the weight changes
    steps = [Step(*first), *([Step("value", 0, 0)] if first[0] in _CASTS else []), Step("call", 0, 0)]
    for number, a, b, skips in more:
        steps.append(Step(_OF_KIND[kind][number % len(_OF_KIND[kind])], a, b))
        # some changes come together
        steps += [Step("call", 0, 0)] if skips < 4 else []
    # graphing a function runs it first, and puts back no buffer that it writes to
    as_function = as_function and entry == "graphed" and kind not in ("cache", "norm")
    uses = (StateUse(kind, entry, variant, checks_liveness, as_function),)
    return StateProgram(uses, (*steps, Step("call", 0, 0)))  # type: ignore[arg-type]


state_programs = st.builds(
    _program,
    st.tuples(st.integers(0, 99), st.sampled_from([*ENTRIES, ENTRIES[0]]), _numbers, st.booleans(), st.booleans()),
    st.tuples(st.sampled_from(_FIRST), _numbers, _numbers),
    st.lists(_change, max_size=4),
)
