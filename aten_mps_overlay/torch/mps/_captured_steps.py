r"""Steps of optimizers in captures: a replay repeats one with the numbers that the optimizer had then."""

import itertools
import operator
import weakref
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple, TYPE_CHECKING

import torch

from . import graphs


if TYPE_CHECKING:
    from torch.optim import Optimizer


def begin_step(optimizer: "Optimizer") -> "Optional[OptimizerStep]":
    """Return a note of a step that is part of a capture, or None outside of captures."""
    if torch.compiler.is_compiling() or not graphs.is_current_stream_capturing():
        return None
    parameters = list(_parameters_of(optimizer))
    if not any(p.is_mps for p in parameters):
        return None
    if not all(p.is_mps or p.grad is None for p in parameters):
        raise RuntimeError(
            f"torch.mps graph capture: {type(optimizer).__name__} has parameters of the MPS device and of others, and "
            "replays would update only the first. Call step() outside of the capture, or give each device an "
            "optimizer of its own."
        )
    step = OptimizerStep(optimizer)
    counts = [v for (_, name), (v, _) in step.before.items() if name == "step"]
    if any(not isinstance(c, torch.Tensor) or c.is_cpu for c in counts) or any(
        "capturable" in group and not group["capturable"] and not group.get("fused")
        for group in optimizer.param_groups
    ):
        _refuse_count(optimizer)
    return step


class OptimizerStep:
    """The param groups of an optimizer at a captured step, and its state."""

    def __init__(self, optimizer: "Optimizer") -> None:
        self.optimizer = weakref.ref(optimizer)
        self.numbers = [_numbers_of(group) for group in optimizer.param_groups]
        # The None lets check() notice fewer and more parameters.
        self.parameters = [*_parameters_of(optimizer), None]
        self.state = optimizer.state
        self.state_size = 0
        self.gradients = _gradients_of(optimizer)
        self.before: Dict[Any, Any] = dict(_entries_of(optimizer))

    def end(self, optimizer: "Optimizer") -> None:
        """Raise if the step changed something that a replay does not change again, or made its state."""
        if any(True for _ in self._changed_numbers(optimizer)):
            _refuse_count(optimizer)
        for key, (value, version) in _entries_of(optimizer):
            old, old_version = self.before.get(key, (None, 0))
            if isinstance(value, torch.Tensor) and value.device.type == "mps":
                if value is not old:
                    raise RuntimeError(
                        f"torch.mps graph capture: {type(optimizer).__name__}.step() made its state {key[1]!r} in the "
                        "capture, and each replay would make it again. Call step() once before the capture."
                    )
            elif version != old_version or not _is_same(value, old):
                _refuse_count(optimizer)
        self.before.clear()
        self.state_size = len(self.state)
        graphs._keep_steps([self])

    def check(self) -> None:
        """Raise if the next step of eager would read other numbers than the captured one."""
        optimizer = self.optimizer()
        if optimizer is None:
            raise RuntimeError(
                "torch.mps graph replay: the optimizer of a captured step is gone: the program dropped it or replaced it by "
                "a new one, and a replay would do the step of the old one. Capture again. If that is meant, keep the old "
                "one with Graph.retain_object()."
            )
        name = type(optimizer).__name__
        if optimizer.state is not self.state or len(self.state) != self.state_size:
            raise RuntimeError(
                f"torch.mps graph replay: the state of {name} was replaced or cleared after the capture, as "
                "load_state_dict() does, and a replay would update the old one. Capture again."
            )
        # Without a list, because hundreds of parameters are compared at each replay.
        parameters = itertools.chain(_parameters_of(optimizer), [None])
        if not all(map(operator.is_, parameters, self.parameters)):
            raise RuntimeError(
                f"torch.mps graph replay: {name} got other parameters after the capture, and a replay would not update "
                "them. Capture again."
            )
        for parameter, gradient in self.gradients:
            now = parameter.grad
            if now is not gradient and _place_of(now) != _place_of(gradient):
                raise RuntimeError(
                    f"torch.mps graph replay: {name}.step() was captured without the backward pass of the parameter of "
                    f"shape {list(parameter.shape)}, and its .grad is not that of the capture, as after zero_grad() and "
                    "backward(). Call zero_grad(set_to_none=False), or capture the backward pass, too."
                )
        for i, key, old, now in self._changed_numbers(optimizer):
            raise RuntimeError(
                f"torch.mps graph replay: param_groups[{i}][{key!r}] of {name} was {old} in the captured step and is "
                f"{now} now, and a replay uses the old value. Capture again. For lr, Adam(capturable=True) and similar "
                "optimizers also take a tensor of the MPS device, which you can change in place."
            )

    def _changed_numbers(
        self, optimizer: "Optimizer"
    ) -> Iterator[Tuple[int, str, Any, Any]]:
        for i, (group, numbers) in enumerate(zip(optimizer.param_groups, self.numbers)):
            for key, old in numbers.items():
                if not _is_same(group.get(key), old):
                    yield i, key, old, group.get(key)


def _refuse_count(optimizer: "Optimizer") -> NoReturn:
    remedy = "Call step() outside of the capture."
    if "capturable" in optimizer.defaults:
        fused = " (or fused=True)" if "fused" in optimizer.defaults else ""
        remedy = (
            f"Construct the optimizer with capturable=True{fused}, or call step() outside of "
            "the capture."
        )
    raise RuntimeError(
        f"torch.mps graph capture: {type(optimizer).__name__}.step() counts its steps on the host, and replays would "
        f"repeat the same step. {remedy}"
    )


def _parameters_of(optimizer: "Optimizer") -> Iterator[torch.Tensor]:
    return itertools.chain.from_iterable(g["params"] for g in optimizer.param_groups)


def _gradients_of(
    optimizer: "Optimizer",
) -> List[Tuple[torch.Tensor, Optional[torch.Tensor]]]:
    """The parameters whose gradients the block did not make. The graph keeps their memory, and notices a move."""
    gradients = ((p, p.grad) for p in _parameters_of(optimizer))
    made = torch._C._mps_isAllocatedInCapture
    return [(p, g) for p, g in gradients if g is None or not made(g)]


def _place_of(gradient: Optional[torch.Tensor]) -> Any:
    if gradient is None:
        return None
    memory = gradient.untyped_storage().data_ptr()
    return memory, gradient.storage_offset(), gradient.shape, gradient.stride()


def _numbers_of(group: Dict[str, Any]) -> Dict[str, Any]:
    # schedulers alone read the initial_lr
    return {k: v for k, v in group.items() if k not in ("params", "initial_lr")}


def _entries_of(
    optimizer: "Optimizer",
) -> Iterator[Tuple[Tuple[int, str], Tuple[Any, int]]]:
    """The tensors and numbers of the state, with the versions of those on the host."""
    for owner, entries in optimizer.state.items():
        for name, value in (
            entries.items() if isinstance(entries, dict) else [("", entries)]
        ):
            if isinstance(value, torch.Tensor):
                yield (id(owner), name), (value, value._version if value.is_cpu else 0)
            elif isinstance(value, (int, float)):
                yield (id(owner), name), (value, 0)


def _is_same(now: Any, before: Any) -> bool:
    if now is before:
        return True
    if isinstance(now, torch.Tensor) or isinstance(before, torch.Tensor):
        return False
    are_numbers = isinstance(now, (int, float)) and isinstance(before, (int, float))
    return (are_numbers or type(now) is type(before)) and bool(now == before)
