"""What a rule chooses of made-up tests, and the faults of rules that are seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mps_simulator.sample import FileRule, Operators, read_sample, SampleError

RULE = """
["test_mps.py"]
tests = ["*"]

[["test_mps.py".operators]]
tests = "TestOps::test_forward_{operator}_cpu_{dtype}"
dtypes = 2
first = "float32"

[["test_mps.py".operators]]
tests = "TestOps::test_backward_{operator}_cpu_{dtype}"
dtypes = 1
first = "float32"

["test_mps.py".slow]
"TestA::test_slow" = 1.5
"TestOps::test_forward_add_cpu_int8" = 3

["test_optim.py"]
tests = ["TestOptim::test_fused_*"]
"""
DTYPES = ("bool", "float16", "float32", "int8", "int64")
ADD = [f"TestOps::test_forward_add_cpu_{dtype}" for dtype in DTYPES]
ADD_BACK = [f"TestOps::test_backward_add_cpu_{dtype}" for dtype in ("float16", "float32")]
AND = [f"TestOps::test_forward___and___cpu_{dtype}" for dtype in ("bool", "int8", "int64")]
SINGLE = ["TestOps::test_backward_add_out_of_types", "TestA::test_quick"]
IDS = [*ADD, *ADD_BACK, *AND, *SINGLE, "TestA::test_slow"]

Writer = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def write(text: str, name: str = "sample.toml") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_rule(write: Writer) -> None:
    chosen = read_sample(write(RULE)).choose("test_mps.py", IDS)
    assert set(chosen) >= {ADD[2], ADD_BACK[1], *SINGLE}
    assert [len(set(chosen) & set(some)) for some in (ADD, ADD_BACK, AND)] == [2, 1, 2]
    assert set(chosen).isdisjoint({"TestA::test_slow", "TestOps::test_forward_add_cpu_int8"})
    # In the order of the file, and in each process the same.
    assert chosen == [ADD[0], ADD[2], ADD_BACK[1], AND[1], AND[2], *SINGLE]


def test_operators_differ_in_their_second_type() -> None:
    family = Operators(tests="{operator}_cpu_{dtype}", dtypes=2, first="float32")
    seconds = {
        family.choose(f"op{number}_cpu_{dtype}" for dtype in DTYPES).difference({f"op{number}_cpu_float32"}).pop()
        for number in range(50)
    }
    assert {test.rpartition("_")[2] for test in seconds} == set(DTYPES) - {"float32"}


def test_another_file(write: Writer) -> None:
    sample = read_sample(write(RULE))
    assert sample.choose("test_optim.py", ["TestOptim::test_fused_x", "TestOptim::test_y"]) == [
        "TestOptim::test_fused_x"
    ]
    with pytest.raises(SampleError, match=r"says nothing about test_nn.py, but about test_mps.py, test_optim.py"):
        sample.choose("test_nn.py", IDS)


ORDINARY = st.sets(st.sampled_from([f"Test{letter}::test_{number}" for letter in "ABC" for number in range(5)]))
OPERATORS = st.sets(
    st.sampled_from(
        [f"TestOps::test_forward_{operator}_cpu_{dtype}" for operator in ("add", "_cpu_", "a_b") for dtype in DTYPES]
    )
)
FORWARD = Operators(tests="TestOps::test_forward_{operator}_cpu_{dtype}", dtypes=2, first="float32")


def choose(ids: set[str], left_out: set[str] | None = None) -> set[str]:
    rule = FileRule(tests=["*"], operators=[FORWARD], slow=dict.fromkeys(left_out or (), 9.0))
    return set(rule.choose(Path("rule.toml"), [*sorted(ids), "TestOps::test_forward_always_cpu_bool"]))


@given(ORDINARY, OPERATORS, st.sampled_from(sorted(IDS)))
def test_a_new_test_of_upstream_is_taken_in_and_no_other_goes(ordinary: set[str], made: set[str], new: str) -> None:
    before, after = choose(ordinary | made), choose(ordinary | made | {new})
    operator = FORWARD.parts(new)
    if operator is None:
        assert after == before | {new}
        return
    same = {test for test in before | after if (FORWARD.parts(test) or ("",))[0] == operator[0]}
    # Of its operator it displaces one at most, and nothing of others.
    assert after - same == before - same
    assert after - before <= {new}
    assert len(before - after) <= len(after - before)
    assert len(after & same) == min(2, sum((FORWARD.parts(test) or ("",))[0] == operator[0] for test in made | {new}))


@given(OPERATORS, st.data())
def test_what_is_left_out_is_replaced_by_another_type(made: set[str], data: st.DataObject) -> None:
    left_out = data.draw(st.sets(st.sampled_from(sorted(made)))) if made else set()
    assert choose(made, left_out) == choose(made - left_out)


@given(OPERATORS)
def test_float32_is_taken(made: set[str]) -> None:
    assert {test for test in made if test.endswith("_float32")} <= choose(made)


def test_a_share_and_its_exceptions(write: Writer) -> None:
    ids = [f"TestA::test_{number}" for number in range(600)]
    write('["test_mps.py"]\ntests = ["*"]\n["test_optim.py"]\ntests = ["*"]\n', "whole.toml")
    text = 'of = "whole.toml"\none_in = 6\n'
    first, *others = read_sample(write(text)).choose("test_mps.py", ids)
    assert 70 < len(others) < 130
    share = read_sample(write(f'{text}["test_mps.py".slow]\n"{first}" = 9\n'))
    assert share.choose("test_mps.py", ids) == others
    assert share.choose("test_optim.py", ids) == [first, *others]
    needless = next(test for test in ids if test not in (first, *others))
    assert 70 < len(others) < 130
    share = read_sample(write(f'{text}["test_mps.py".slow]\n"{needless}" = 9\n'))
    with pytest.raises(SampleError, match=f"leaves out tests that it does not take anyway: {needless}$"):
        share.choose("test_mps.py", ids)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("TestA::test_slow", "TestA::test_gone", "leaves out tests that there are not: TestA::test_gone$"),
        ("add_cpu_int8", "add_cpu_int9", "leaves out tests that there are not: TestOps::test_forward_add_cpu_int9$"),
        ('["*"]', '["TestOps::*"]', "leaves out tests that it does not take anyway: TestA::test_slow$"),
        ('["*"]', '["*", "TestB::*"]', r"no test has a name like: TestB::\*$"),
        ("test_backward", "test_behind", "no test has a name like: TestOps::test_behind_{operator}_cpu_{dtype}$"),
    ],
)
def test_a_rule_that_no_longer_fits(write: Writer, old: str, new: str, complaint: str) -> None:
    sample = read_sample(write(RULE.replace(old, new)))
    with pytest.raises(SampleError, match=complaint):
        sample.choose("test_mps.py", IDS)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('tests = ["*"]', "", "tests\n  Field required"),
        ("dtypes = 2", 'dtypes = "2"', "dtypes\n  Input should be a valid integer"),
        ("{operator}_cpu_{dtype}", "{operator}_cpu", "tests\n  String should match pattern"),
        (".slow]", ".slowly]", "slowly\n  Extra inputs are not permitted"),
        (".slow]", ".slow", "cannot be read"),
        ('["test_mps.py"]', 'of = "whole.toml"\none_in = 0\n["test_mps.py"]', "one_in\n  Input should be greater than"),
    ],
)
def test_a_sample_that_cannot_be_read(write: Writer, old: str, new: str, complaint: str) -> None:
    assert old in RULE
    with pytest.raises(SampleError, match=complaint):
        read_sample(write(RULE.replace(old, new, 1)))


def test_a_share_of_nothing(write: Writer) -> None:
    with pytest.raises(SampleError, match=r"none\.toml cannot be read"):
        read_sample(write('of = "none.toml"\none_in = 6'))
