"""What happens between a capture and a replay: every kind of state that eager reads again.

A change returns its text, or None where there is nothing to change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TYPE_CHECKING

import torch
from program import Step
from state_subjects import batches, SHAPE
from subjects import DEVICE, device_numbers, numbers
from thread_calls import run_threads
from torch import nn
from torch.nn.utils import parametrize
from torch.utils import swap_tensors

if TYPE_CHECKING:
    from state_world import StateWorld

Change = Callable[["StateWorld", Step], str | None]


@dataclass(frozen=True)
class Flags:
    """Settings that a call is made under."""

    grad: bool
    inference: bool = False
    autocast: bool = False
    cache: bool = True
    deterministic: bool = False
    math_sdp: bool = True
    dtype: torch.dtype = torch.float32
    precision: str = "highest"

    def enter(self, stack: contextlib.ExitStack) -> None:
        cuda: Any = torch.backends.cuda
        settings: tuple[tuple[Callable[[Any], object], Any, Any], ...] = (
            (torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled(), self.deterministic),
            (cuda.enable_math_sdp, cuda.math_sdp_enabled(), self.math_sdp),
            (torch.set_default_dtype, torch.get_default_dtype(), self.dtype),
            (torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), self.precision),
        )
        for setter, now, new in settings:
            stack.callback(setter, now)
            setter(new)
        stack.enter_context(torch.inference_mode() if self.inference else torch.set_grad_enabled(self.grad))
        if self.autocast:
            stack.enter_context(torch.autocast(DEVICE, dtype=torch.float16, cache_enabled=self.cache))


class Tagged(torch.Tensor):
    """A subclass without behavior."""


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


# The tensors that a kind reads; others read `weight` and `x`.
_READ = {
    "linear": ("linear.weight", "x"),
    "sgd": ("linear.weight", "x"),
    "adam": ("linear.weight", "x"),
    "counter": ("linear.weight", "x"),
    "direct": ("weight", "x", "part"),
    "cache": ("cache", "x"),
    "host": ("landing", "x"),
    "number": ("x",),
}


def _read(world: StateWorld, a: int) -> tuple[str, torch.Tensor]:
    names = _READ.get(world.use.kind, ("weight", "x"))
    name = names[a % len(names)]
    owner: Any = world.box.linear if name == "linear.weight" else world if name == "x" else world.box
    return name, getattr(owner, name.rpartition(".")[2])


def _of(
    find: Callable[[StateWorld, int], tuple[str, torch.Tensor]], text: str, change: Callable[..., object]
) -> Change:
    """A change of a tensor under no_grad; it gets the tensor and b."""

    def made(world: StateWorld, step: Step) -> str | None:
        name, tensor = find(world, step.a)
        with torch.no_grad():
            change(tensor, step.b)
        return name + text.format(b=step.b, rows=_rows(step.b))

    return made


def _swapping(
    find: Callable[[StateWorld, int], tuple[str, torch.Tensor]], text: str, other: Callable[[int], torch.Tensor]
) -> Change:
    def made(world: StateWorld, step: Step) -> str | None:
        # Dynamo's weak references keep tensors from being swapped
        if world.use.entry == "compiled":
            return None
        return _of(find, text, lambda t, b: _swap(t, other(b)))(world, step)

    return made


def _doing(
    text: str,
    do: Callable[[StateWorld, int], object],
    unless: Callable[[StateWorld], object] = lambda _world: False,
) -> Change:
    """A change that gets the world and b; where `unless` holds there is nothing to change."""

    def made(world: StateWorld, step: Step) -> str | None:
        if unless(world):
            return None
        do(world, step.b)
        return text.format(b=step.b)

    return made


def _rows(b: int) -> int:
    return 16 if b % 2 else 8


def _assign(tensor: torch.Tensor, new: torch.Tensor) -> None:
    tensor.data = new


# Calls


change_call = _doing("call", lambda world, b: world.call_again())
change_call_in_thread = _doing("call in another thread", lambda world, b: run_threads(world.call_again))
change_capture = _doing("capture, or call for the first time", lambda world, b: world.call_first())
change_capture_in_thread = _doing("capture in another thread", lambda world, b: run_threads(world.call_first))


def change_form(world: StateWorld, step: Step) -> str | None:
    """Another kind of input, which is captured anew."""
    forms: tuple[tuple[Callable[[torch.Tensor], torch.Tensor], str], ...] = (
        (lambda x: torch._neg_view(x), "a negative view"),
        (lambda x: x.as_subclass(Tagged), "a subclass"),
        (lambda x: x[:1].expand(4, 4), "expanded"),
    )
    form, text = forms[step.b % len(forms)]
    world.x = form(world.batches[step.a % 3])
    world.call_first()
    return f"x = batches[{step.a % 3}] as {text}; capture, or call"


# Tensors on the device


def change_offset(world: StateWorld, step: Step) -> str | None:
    name, tensor = _read(world, step.a)
    offset, shape, stride = (tensor.storage_offset() + 16) % 48, tensor.shape, tensor.stride()
    if tensor.untyped_storage().nbytes() < 192 or tensor.numel() > 16 or not tensor.is_contiguous():
        return None
    with torch.no_grad():
        tensor.set_(tensor.untyped_storage(), offset, shape, stride)
    return f"{name}.set_(its storage, offset {offset})"


def change_in_thread(world: StateWorld, step: Step) -> str | None:
    change = (change_value, change_data)[step.b % 2]
    texts: list[str | None] = []
    run_threads(lambda: texts.append(change(world, step)))
    return f"{texts[0]} in another thread"


def _change_base(t: torch.Tensor, b: int) -> None:
    if b % 3 == 0:
        t.zero_()
    elif b % 3 == 1:
        t.resize_(6, 4, 4)[3:].zero_()
    else:
        t.set_(batches(b))  # type: ignore[call-overload]


def _swap(t: torch.Tensor, new: torch.Tensor) -> None:
    new = nn.Parameter(new, t.requires_grad) if isinstance(t, nn.Parameter) else new
    swap_tensors(t, new)  # type: ignore[no-untyped-call]


change_value = _of(_read, ".mul_(0.5)", lambda t, b: t.mul_(0.5))
change_input = _of(lambda world, a: ("x", world.x), ".add_(0.5)", lambda t, b: t.add_(0.5))
change_storage = _of(_read, ".set_(another tensor)", lambda t, b: t.set_(batches(9 + b)[b % 2].to(t.dtype)))
change_data = _of(_read, ".data = another tensor", lambda t, b: _assign(t, device_numbers(SHAPE, b)))
change_data_transposed = _of(_read, ".data = its .data.mT", lambda t, b: _assign(t, t.data.mT))
change_data_dtype = _of(
    _read,
    ".data = it in another dtype",
    lambda t, b: _assign(t, t.data.to(torch.float16 if t.dtype == torch.float32 else torch.float32)),
)
change_t = _of(_read, ".t_()", lambda t, b: t.t_() if t.dim() == 2 else t)
change_transpose = _of(_read, ".transpose_(-2, -1)", lambda t, b: t.transpose_(-2, -1))
change_as_strided = _of(
    _read,
    ".as_strided_(…), variant {b}",
    lambda t, b: t.as_strided_((4, 4), (1, 4)) if b % 2 else t.as_strided_((2, 4), (4, 1)),
)
change_unsqueeze = _of(_read, ".unsqueeze_(0)", lambda t, b: t.unsqueeze_(0))
change_squeeze = _of(
    _read,
    ": squeezed, from 3 dimensions or by way of them",
    lambda t, b: (t if t.dim() == 3 else t.unsqueeze_(0)).squeeze_(0),
)
change_resize_smaller = _of(_read, ".resize_(2, 4)", lambda t, b: t.resize_(2, 4))
change_resize_larger = _of(
    _read,
    ".resize_({rows}, 4), new values",
    lambda t, b: t.resize_(_rows(b), 4).copy_(device_numbers((_rows(b), 4), b)),
)
change_base = _of(lambda world, a: ("base", world.box.base), ": zeroed, larger or set, variant {b}", _change_base)
change_swap = _swapping(_read, ": swap_tensors(it, another)", lambda b: device_numbers(SHAPE, b))


change_double_buffer = _doing(
    "x.data = batches[1 + {b} % 2]", lambda world, b: _assign(world.x, world.batches[1 + b % 2])
)


# Modules


def _replace(world: StateWorld, b: int) -> None:
    owner = world.box.linear if world.use.kind == "linear" else world.box
    owner.weight = nn.Parameter(owner.weight.detach() * 0.5, owner.weight.requires_grad)


def _load(world: StateWorld, b: int) -> None:
    state = {k: v * 0.5 if v.is_floating_point() else v.clone() for k, v in world.box.state_dict().items()}
    world.box.load_state_dict(state, assign=True)


def change_requires_grad(world: StateWorld, step: Step) -> str | None:
    weight = (world.box.linear if world.use.kind == "linear" else world.box).weight
    # Dynamo does not look at requires_grad again, results of a graph need gradients as they did in its capture, and a
    # weight with a parametrization is computed
    if world.use.as_function or world.use.entry != "graphed" or not isinstance(weight, nn.Parameter):
        return None
    weight.requires_grad_(not weight.requires_grad)
    return f"weight.requires_grad_({weight.requires_grad})"


change_replace = _doing("weight = Parameter(it * 0.5)", _replace, unless=lambda world: not world.notices_replaced)
change_load = _doing(
    "load_state_dict(its own * 0.5, assign=True)", _load, unless=lambda world: not world.notices_replaced
)
change_parametrize = _doing(
    'register_parametrization(linear, "weight", twice)',
    lambda world, b: parametrize.register_parametrization(world.box.linear, "weight", Twice()),
    unless=lambda world: world.is_own_code or parametrize.is_parametrized(world.box.linear),
)
change_hook = _doing(
    "a forward hook of (the module, linear)[{b} % 2] doubles its input",
    lambda world, b: (world.box.linear if b % 2 else world.box).register_forward_pre_hook(
        lambda _, args: (args[0] * 2,)
    ),
    # Dynamo does not look at hooks again
    unless=lambda world: world.is_own_code or world.use.entry == "compiled",
)
change_grad_none = _doing("linear.weight.grad = None", lambda world, b: setattr(world.box.linear.weight, "grad", None))
change_zero_grad = _doing(
    "zero_grad(set_to_none={b} % 2 == 0)", lambda world, b: world.box.zero_grad(set_to_none=b % 2 == 0)
)


# Tensors on the CPU


def _host(world: StateWorld, a: int) -> tuple[str, torch.Tensor]:
    return "host", world.box.host


def _number(world: StateWorld, a: int) -> tuple[str, torch.Tensor]:
    return "s", world.box.number


def _write_arrays(world: StateWorld, b: int) -> None:
    """Writes to the memory of a tensor on the CPU behind its back."""
    for array in world.box.arrays or ():
        array[...] += 1


change_numpy = _doing(
    "the numpy arrays of host and s += 1", _write_arrays, unless=lambda world: world.box.arrays is None
)
# The program puts another tensor in its place, which a graph cannot see; Dynamo does.
change_host_drop = _doing(
    "host = host.clone()",
    lambda world, b: world.box.__dict__.update(host=world.box.host.clone()),
    unless=lambda world: world.use.entry != "compiled",
)
change_host_write = _of(_host, ".add_(1)", lambda t, b: t.add_(1))
change_host_data = _of(_host, ".data = another tensor", lambda t, b: _assign(t, numbers(SHAPE, b)))
change_host_set = _of(_host, ".set_(another tensor)", lambda t, b: t.set_(numbers(SHAPE, b)))
change_host_swap = _swapping(_host, ": swap_tensors(host, another)", lambda b: numbers(SHAPE, b))
# numpy's memory gets no larger
change_host_resize = _of(_host, ".resize_(2, 4), new values", lambda t, b: t.resize_(2, 4).copy_(numbers((2, 4), b)))
change_host_t = _of(_host, ".t_()", lambda t, b: t.t_())
change_number_fill = _of(_number, ".fill_(3 + {b})", lambda t, b: t.fill_(3 + b))
change_number_add = _of(_number, ".add_(1)", lambda t, b: t.add_(1))
change_number_data = _of(_number, ".data = tensor(4.0 + {b})", lambda t, b: _assign(t, torch.tensor(4.0 + b)))


# Settings


def _setting(name: str, one: Any, other: Any, compiled: bool = True) -> Change:
    """A setting that later calls are made under, in turn the one and the other; not all reach compiled ones."""

    def made(world: StateWorld, step: Step) -> str | None:
        if world.use.entry == "compiled" and not compiled:
            return None
        new = other if getattr(world.flags, name) == one else one
        world.flags = replace(world.flags, **{name: new})
        return f"{name} = {new}"

    return made


def _in_autocast(text: str, before: Callable[[StateWorld], object]) -> Change:
    """What the block casts was cast before, in the same block of autocast."""

    def do(world: StateWorld, b: int) -> None:
        world.flags = replace(world.flags, autocast=True, cache=b % 4 != 3)
        with torch.autocast(DEVICE, dtype=torch.float16, cache_enabled=world.flags.cache):
            with torch.set_grad_enabled(world.flags.grad):
                before(world)
            world.call_first()
        if b % 2:
            world.flags = replace(world.flags, autocast=False)

    return _doing(f"in one autocast block, cache_enabled=({{b}} % 4 != 3): {text}, then capture", do)


change_capture_in_autocast = _in_autocast("call eagerly", lambda world: world.box(world.x))
change_two_captures = _in_autocast("capture", lambda world: world.capture_another())
change_autocast = _setting("autocast", False, True)
change_autocast_cache = _setting("cache", False, True)
change_deterministic = _setting("deterministic", False, True)
# Dynamo guards nothing of it: a trace keeps the operators of its day
change_math_sdp = _setting("math_sdp", False, True, compiled=False)
change_default_dtype = _setting("dtype", torch.float32, torch.float16)
change_precision = _setting("precision", "highest", "high")
change_grad_mode = _setting("grad", False, True)
change_inference = _setting("inference", False, True)


# Optimizers


def _group(key: str, value: Callable[[int], Any]) -> Change:
    def made(world: StateWorld, step: Step) -> str | None:
        group, new = world.optimizer.param_groups[0], value(step.b)
        if isinstance(group[key], torch.Tensor):
            group[key].fill_(new)
            return f'param_groups[0]["{key}"].fill_({new})'
        group[key] = new
        return f'param_groups[0]["{key}"] = {new}'

    return made


def _add_group(world: StateWorld, b: int) -> None:
    world.box.weight.grad = torch.ones_like(world.box.weight)
    world.optimizer.add_param_group({"params": [world.box.weight]})


change_scheduler = _doing(
    "ExponentialLR(optimizer, 0.5).step()",
    lambda world, b: torch.optim.lr_scheduler.ExponentialLR(world.optimizer, 0.5).step(),
)
change_add_group = _doing(
    "add_param_group(weight)", _add_group, unless=lambda world: len(world.optimizer.param_groups) > 1
)
change_lr = _group("lr", lambda b: 0.5 + b / 8)
change_momentum = _group("momentum", lambda b: b / 16)
change_weight_decay = _group("weight_decay", lambda b: 0.5 + b)
change_betas = _group("betas", lambda b: (0.5, 0.75))
change_scale = _group("scale", lambda b: 2.0 + b)


# Generators


def _seed(world: StateWorld, b: int) -> None:
    torch.mps.manual_seed(b)
    if world.box.generator is not None:
        world.box.generator.manual_seed(b)


def _draw_and_put_back(world: StateWorld, b: int) -> None:
    state = torch.mps.get_rng_state()
    torch.rand(3 + b, device=DEVICE)
    torch.mps.set_rng_state(state)


change_seed = _doing("manual_seed({b})", _seed)
change_rng_state = _doing("get_rng_state(); rand(); set_rng_state()", _draw_and_put_back)
change_other_draws = _doing(
    "rand(3 + {b})", lambda world, b: torch.rand(3 + b, device=DEVICE, generator=world.box.generator)
)


def _replace_generator(world: StateWorld, b: int) -> None:
    world.box.__dict__["generator"] = torch.Generator(DEVICE).manual_seed(b)


change_generator = _doing(
    "generator = Generator().manual_seed({b})", _replace_generator, unless=lambda world: world.box.generator is None
)


# Captures that must raise

_EVENTS: tuple[tuple[str, Callable[[torch.Event], Any]], ...] = (
    ('torch.Event("mps").record()', lambda event: event.record()),
    ('torch.Event("mps").wait()', lambda event: event.wait()),
    ("torch.Stream.record_event()", lambda event: torch.Stream(device=DEVICE).record_event()),
    ("torch.Stream.wait_event(event)", lambda event: torch.Stream(device=DEVICE).wait_event(event)),
    ("torch.mps.Event().record()", lambda event: torch.mps.Event().record()),  # type: ignore[no-untyped-call]
)


def change_event(world: StateWorld, step: Step) -> str | None:
    event = torch.Event(DEVICE)
    event.record()
    name, call = _EVENTS[step.b % len(_EVENTS)]
    world.refused(lambda: call(event), {})
    return f"a capture with {name} in its block"


# No mode of CUDA's lets the host read.
change_relaxed = _doing(
    'a capture with .item() in its block, capture_error_mode="relaxed"',
    lambda world, b: world.refused(lambda: world.batches.sum().item(), {"capture_error_mode": "relaxed"}),
    unless=lambda world: world.use.entry != "graph",
)
