"""The processes of the sweep: one test for each operator and dtype that run.py orders, which records its outcomes."""

import json
import os
from typing import Any

import pytest
from cases import outcomes_of

ORDER = json.loads(os.environ["SWEEP_ORDER"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op,dtype", ORDER["pairs"])
def test_operator(op: str, dtype: str, record_property: Any) -> None:
    for found in outcomes_of(op, dtype, ORDER):
        record_property("case", {"op": op, "dtype": dtype, **found})
