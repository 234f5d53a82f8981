"""Whether a replay can speed up one step of a program: ``python -m torch.mps.check --profile FILE.py:FUNCTION``."""

import importlib
import importlib.util
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .machine import is_simulated
from .timing import measure_step, steps_of

Step = Callable[[], Any]
# A host that waits less than this share of a step for the GPU is the limit.
WAITING = 0.2


@dataclass
class Operators:
    """What one step calls: how many operators, and those at which the CPU reads from the device or computes."""

    count: int = 0
    host_reads: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)


@dataclass
class Profile:
    """One step: seconds of eager and of a replay, operators, steps of the graph, and why there is no graph."""

    eager: dict[str, float]
    operators: Operators
    replay: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    problem: str = ""
    verdict: str = ""


def find_step(name: str) -> Step:
    """Import the function.

    Arguments:
        name: ``module:function``, or ``file.py:function``. The function takes no arguments and runs one step.

    Raises:
        ValueError: if there is no such module, file or function.
    """
    place, _, function = name.rpartition(":")
    if not place or not function:
        raise ValueError(f"{name!r} is not of the form module:function or file.py:function")
    if place.endswith(".py"):
        path = Path(place).resolve()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise ValueError(f"there is no file {place}")
        sys.path.insert(0, str(path.parent))
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise ValueError(f"there is no module {error.name}") from None
    step = getattr(module, function, None)
    if not callable(step):
        raise ValueError(f"{place} has no function {function}")
    return step  # type: ignore[no-any-return]


def _line_of_program() -> str:
    """The innermost line outside of torch."""
    torch_folder = str(Path(torch.__file__).parent)
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(torch_folder) and frame.filename != __file__:
            return f"{frame.filename}:{frame.lineno} ({frame.name})"
    return "unknown line"


_FALLBACK = re.compile(r"operator '([\w:.]+)' is not currently supported on the MPS backend")


class _Looks(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = Operators()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if any(each.device.type == "mps" for each in given):
            name = func.name()
            self.seen.count += 1
            returned = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
            if name == "aten::_local_scalar_dense" or any(
                each.device.type == "cpu" and each.dim() for each in returned
            ):
                self.seen.host_reads.append(f"{name} at {_line_of_program()}")
        return result


def _fallbacks(step: Step) -> list[str]:
    """The backend warns of each, but only once."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            step()
    finally:
        torch.set_warn_always(always)
    found = [(_FALLBACK.search(str(each.message)), each) for each in warned]
    return [f"{match[1]} at {each.filename}:{each.lineno}" for match, each in found if match]


def _verdict(profile: Profile) -> str:
    submitted, done = profile.eager["submitted"], profile.eager["wall"]
    shown = f"{submitted * 1e3:.2f} of {done * 1e3:.2f} ms"
    if is_simulated():
        begin = f"SIMULATED: the CPU needs {submitted * 1e3:.2f} ms to submit a step"
        return f"{begin}; only a Mac shows how long its GPU takes."
    if done - submitted > WAITING * done:
        return f"Submission takes {shown}: the GPU is the limit, and a replay gives the CPU free time at best."
    if profile.problem:
        return (
            f"Submission takes {shown}: the CPU is the limit, and a capture raises. Change the step as the error says."
        )
    saved = 1 - profile.replay["submitted"] / submitted
    return f"Submission takes {shown}: the CPU is the limit, and a replay saves {saved:.0%} of its time."


def profile_step(step: Step, passes: int) -> Profile:
    """Run the step eagerly, then captured if a capture does not raise."""
    mps: Any = torch.mps
    eager = measure_step(step, passes)
    with _Looks() as looks:
        step()
    looks.seen.fallbacks = _fallbacks(step)
    profile = Profile(eager, looks.seen)
    graph = mps.MPSGraph()
    try:
        with mps.graph(graph):
            step()
        profile.steps = steps_of(graph)
        profile.replay = measure_step(graph.replay, passes)
    except RuntimeError as error:
        profile.problem = str(error)
    profile.verdict = _verdict(profile)
    return profile


def _bars(rows: list[tuple[str, float]]) -> list[str]:
    longest = max(seconds for _, seconds in rows) or 1.0
    return [
        f"{name:<24} {'█' * max(1, round(40 * seconds / longest))} {seconds * 1e3:.3f} ms" for name, seconds in rows
    ]


def as_text(profile: Profile) -> str:
    """Return the profile as lines for a terminal: the verdict first."""
    rows = []
    for name, times in (("eager", profile.eager), ("replay", profile.replay)):
        if times:
            rows.append((f"{name}, submitted", times["submitted"]))
            if not is_simulated():
                rows.append((f"{name}, until GPU is done", times["wall"]))
    seen = profile.operators
    lines = [profile.verdict, "", *_bars(rows), "", f"{seen.count} operators, {profile.steps} steps in the graph"]
    for title, found in (
        ("Reads of the CPU from the device", seen.host_reads),
        ("Operators without an MPS kernel, run on the CPU", seen.fallbacks),
    ):
        if found:
            lines += ["", f"{title} ({len(found)}):", *(f"  {place}" for place in dict.fromkeys(found))]
    if profile.problem:
        lines += ["", f"A capture raises: {profile.problem}"]
    return "\n".join(lines)


def as_dict(profile: Profile) -> dict[str, Any]:
    """Return the profile for a JSON file; times are in seconds."""
    return {"simulated": is_simulated(), **asdict(profile)}
