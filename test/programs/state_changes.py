"""What happens between a capture and a replay: every kind of state that eager reads again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from program import Step
from state_program import StateUse
from state_subjects import batches, Box, SHAPE
from subjects import DEVICE, device_numbers, numbers
from torch import nn
from torch.nn.utils import parametrize
from torch.utils import swap_tensors


@dataclass(frozen=True)
class Flags:
    """Settings that a call is made under."""

    grad: bool
    inference: bool = False
    autocast: bool = False
    cache: bool = True
    deterministic: bool = False
    math: bool = True
    dtype: torch.dtype = torch.float32
    precision: str = "highest"

    def enter(self, stack: contextlib.ExitStack) -> None:
        def put(setter: Callable[[Any], object], now: Any, new: Any) -> None:
            stack.callback(setter, now)
            setter(new)

        cuda: Any = torch.backends.cuda
        put(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled(), self.deterministic)
        put(cuda.enable_math_sdp, cuda.math_sdp_enabled(), self.math)
        put(torch.set_default_dtype, torch.get_default_dtype(), self.dtype)
        put(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), self.precision)
        stack.enter_context(torch.inference_mode() if self.inference else torch.set_grad_enabled(self.grad))
        if self.autocast:
            stack.enter_context(torch.autocast(DEVICE, dtype=torch.float16, cache_enabled=self.cache))


class Tagged(torch.Tensor):
    """A subclass without behavior."""


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


# The tensors that a kind reads, and whose metadata changes.
_READ = {
    "linear": ("linear.weight", "x"),
    "direct": ("weight", "x", "part"),
    "cache": ("cache", "x"),
    "host": ("landing", "x"),
    "number": ("x",),
}
_EVENTS: dict[str, Callable[[], Any]] = {
    'torch.Event("mps").record()': lambda: torch.Event(DEVICE).record(),
    'torch.Event("mps").wait()': lambda: _recorded().wait(),
    'torch.Stream("mps").record_event()': lambda: torch.Stream(device=DEVICE).record_event(),
    'torch.Stream("mps").wait_event(event)': lambda: torch.Stream(device=DEVICE).wait_event(_recorded()),
    "torch.mps.Event().record()": lambda: torch.mps.Event().record(),  # type: ignore[no-untyped-call]
}
_EVENT: list[torch.Event] = []


def _recorded() -> torch.Event:
    if not _EVENT:
        raise AssertionError("no event was recorded before the capture")
    return _EVENT[0]


class Changes:
    """A method for each kind of change: its text, or None where there is nothing to change."""

    use: StateUse
    box: Box
    x: torch.Tensor
    batches: torch.Tensor
    optimizer: torch.optim.Optimizer | None
    generator: torch.Generator | None
    flags: Flags
    call_first: Callable[[], None]
    call_again: Callable[[], None]
    capture_two: Callable[[], None]
    refused: Callable[[Callable[[], Any], dict[str, str]], None]
    drop_host: Callable[[], None]
    in_thread: Callable[[Callable[[], None]], None]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Those on the device, whose metadata a change may change."""
        box = self.box
        return {
            "x": self.x,
            "linear.weight": box.linear.weight,
            "weight": box.weight,
            "cache": box.cache,
            "part": box.part,
            "landing": box.landing,
            "base": box.base,
        }

    def _tensor(self, a: int) -> tuple[str, torch.Tensor]:
        kind = self.use.kind
        names = _READ.get(kind, ("linear.weight" if self.use.trains else "weight", "x"))
        return names[a % len(names)], self.tensors[names[a % len(names)]]

    # Calls

    def change_call(self, step: Step) -> str | None:
        self.call_again()
        return "call"

    def change_call_in_thread(self, step: Step) -> str | None:
        self.in_thread(self.call_again)
        return "call in another thread"

    def change_capture(self, step: Step) -> str | None:
        self.call_first()
        return "capture, or call for the first time"

    def change_capture_in_thread(self, step: Step) -> str | None:
        self.in_thread(self.call_first)
        return "capture in another thread"

    # Values

    def change_input(self, step: Step) -> str | None:
        return self._change(step, "x", self.x, lambda t: t.add_(0.5), ".add_(0.5)")

    def change_value(self, step: Step) -> str | None:
        return self._change(step, *self._tensor(step.a), lambda t: t.mul_(0.5), ".mul_(0.5)")

    def change_in_thread(self, step: Step) -> str | None:
        name, tensor = self._tensor(step.a)

        def change() -> None:
            with torch.no_grad():
                if step.b % 2:
                    tensor.data = device_numbers(SHAPE, step.b)
                else:
                    tensor.mul_(0.5)

        self.in_thread(change)
        return f"{name}{'.data = other' if step.b % 2 else '.mul_(0.5)'} in another thread"

    # Metadata

    def _change(
        self, step: Step, name: str, tensor: torch.Tensor, change: Callable[[torch.Tensor], object], text: str
    ) -> str:
        with torch.no_grad():
            change(tensor)
        return name + text

    def change_offset(self, step: Step) -> str | None:
        name, tensor = self._tensor(step.a)
        offset = (tensor.storage_offset() + 16) % 48
        if tensor.untyped_storage().nbytes() < 192 or tensor.numel() > 16 or not tensor.is_contiguous():
            return None
        shape, stride = tensor.shape, tensor.stride()
        text = f".set_(its storage, offset {offset})"
        return self._change(step, name, tensor, lambda t: t.set_(t.untyped_storage(), offset, shape, stride), text)

    def change_storage(self, step: Step) -> str | None:
        new = batches(9 + step.b)[step.b % 2].to(self._tensor(step.a)[1].dtype)
        return self._change(step, *self._tensor(step.a), lambda t: t.set_(new), ".set_(another tensor)")  # type: ignore[call-overload]

    def change_data(self, step: Step) -> str | None:
        if step.a % 2:
            self.x.data = self.batches[1 + step.b % 2]
            return f"x.data = batches[{1 + step.b % 2}]"
        name, tensor = self._tensor(step.a)
        tensor.data = device_numbers(SHAPE, step.b)
        return f"{name}.data = another tensor"

    def change_data_transposed(self, step: Step) -> str | None:
        name, tensor = self._tensor(step.a)
        if tensor.dim() != 2:
            return None
        tensor.data = tensor.data.t()
        return f"{name}.data = {name}.data.t()"

    def change_data_dtype(self, step: Step) -> str | None:
        name, tensor = self._tensor(step.a)
        tensor.data = tensor.data.to(torch.float16 if tensor.dtype == torch.float32 else torch.float32)
        return f"{name}.data = {name}.data.to({tensor.dtype})"

    def change_t(self, step: Step) -> str | None:
        return self._in_place(step, lambda t: t.t_(), ".t_()")

    def change_transpose(self, step: Step) -> str | None:
        return self._in_place(step, lambda t: t.transpose_(0, 1), ".transpose_(0, 1)")

    def _in_place(self, step: Step, change: Callable[[torch.Tensor], object], text: str) -> str | None:
        name, tensor = self._tensor(step.a)
        return self._change(step, name, tensor, change, text) if tensor.dim() == 2 else None

    def change_as_strided(self, step: Step) -> str | None:
        shape, stride = ((4, 4), (1, 4)) if step.b % 2 else ((2, 4), (4, 1))
        return self._in_place(step, lambda t: t.as_strided_(shape, stride), f".as_strided_({shape}, {stride})")

    def change_unsqueeze(self, step: Step) -> str | None:
        return self._in_place(step, lambda t: t.unsqueeze_(0), ".unsqueeze_(0)")

    def change_squeeze(self, step: Step) -> str | None:
        name, tensor = self._tensor(step.a)
        return self._change(step, name, tensor, lambda t: t.unsqueeze_(0).squeeze_(0), ".unsqueeze_(0).squeeze_(0)")

    def change_resize_smaller(self, step: Step) -> str | None:
        return self._in_place(step, lambda t: t.resize_(2, 4), ".resize_(2, 4)")

    def change_resize_larger(self, step: Step) -> str | None:
        rows = 16 if step.b % 2 else 8
        text = f".resize_({rows}, 4), and new values"
        return self._in_place(step, lambda t: t.resize_(rows, 4).copy_(device_numbers((rows, 4), step.b)), text)

    def change_base(self, step: Step) -> str | None:
        base, b = self.box.base, step.b % 4
        change, text = (
            (lambda t: t.mul_(2), ".mul_(2)"),
            (lambda t: t.resize_(6, 4, 4), ".resize_(6, 4, 4)"),
            (lambda t: t.set_(batches(step.a)), ".set_(another tensor)"),
            (lambda t: t.zero_(), ".zero_()"),
        )[b]
        return self._change(step, "the base of part", base, change, text)

    def change_swap(self, step: Step) -> str | None:
        if step.a % 2:
            self._swap(self.x, device_numbers(SHAPE, step.b))
            return "swap_tensors(x, another)"
        linear = self.box.linear
        self._swap(linear.weight, nn.Parameter(device_numbers(SHAPE, step.b), linear.weight.requires_grad))
        return "swap_tensors(linear.weight, another)"

    def _swap(self, one: torch.Tensor, other: torch.Tensor) -> None:
        swap_tensors(one, other)  # type: ignore[no-untyped-call]

    def change_form(self, step: Step) -> str | None:
        """Another kind of input, which is captured anew."""
        forms: tuple[tuple[Callable[[torch.Tensor], torch.Tensor], str], ...] = (
            (lambda x: torch._neg_view(x), "a negative view"),
            (lambda x: x.as_subclass(Tagged), "a subclass"),
            (lambda x: x[:1].expand(4, 4), "expanded"),
        )
        form, text = forms[step.b % len(forms)]
        plain = self.batches[step.a % 3]
        self.x = form(plain)
        self.call_first()
        return f"x = batches[{step.a % 3}] as {text}; capture, or call"

    # Modules

    @property
    def _is_own_code(self) -> bool:
        """Whether the captured block is the program's own code, which a capture fixes."""
        return self.use.entry == "graph" or (self.use.entry == "graphed" and self.use.as_function)

    def _is_replaceable(self) -> bool:
        # a graph notices with check_input_liveness=True
        checks = self.use.entry == "graph" and self.use.checks_liveness
        return not self.use.trains and (checks or not self._is_own_code)

    def change_replace(self, step: Step) -> str | None:
        if not self._is_replaceable():
            return None
        owner, name = (self.box.linear, "linear.weight") if self.use.kind == "linear" else (self.box, "weight")
        old = owner.weight
        owner.weight = nn.Parameter(old.detach() * 0.5, old.requires_grad)
        return f"{name} = Parameter(it * 0.5)"

    def change_load(self, step: Step) -> str | None:
        if not self._is_replaceable():
            return None
        state = {k: v * 0.5 if v.is_floating_point() else v.clone() for k, v in self.box.state_dict().items()}
        self.box.load_state_dict(state, assign=True)
        return "load_state_dict(its own * 0.5, assign=True)"

    def change_requires_grad(self, step: Step) -> str | None:
        if self.use.trains or self.use.as_function:
            return None
        weight = self.box.linear.weight if self.use.kind == "linear" else self.box.weight
        if not isinstance(weight, nn.Parameter):
            return None  # it is computed from a parametrization
        weight.requires_grad_(not weight.requires_grad)
        return f"weight.requires_grad_({weight.requires_grad})"

    def change_parametrize(self, step: Step) -> str | None:
        if self._is_own_code or parametrize.is_parametrized(self.box.linear):
            return None
        parametrize.register_parametrization(self.box.linear, "weight", Twice())
        return 'register_parametrization(linear, "weight", twice)'

    def change_hook(self, step: Step) -> str | None:
        if self._is_own_code:
            return None
        module, name = (self.box.linear, "linear") if step.b % 2 else (self.box, "the module")
        module.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
        return f"a forward hook of {name} doubles its input"

    def change_grad_none(self, step: Step) -> str | None:
        self.box.linear.weight.grad = None
        return "linear.weight.grad = None"

    def change_zero_grad(self, step: Step) -> str | None:
        self.box.zero_grad(set_to_none=step.b % 2 == 0)
        return f"zero_grad(set_to_none={step.b % 2 == 0})"

    # Tensors on the CPU

    def change_host_write(self, step: Step) -> str | None:
        if step.b % 2 and self.use.variant % 2:
            self.box.arrays[0][:] += 1
            return "host's numpy array += 1"
        return self._change(step, "host", self.box.host, lambda t: t.add_(1), ".add_(1)")

    def change_host_data(self, step: Step) -> str | None:
        self.box.host.data = numbers(SHAPE, step.b)
        return "host.data = another tensor"

    def change_host_set(self, step: Step) -> str | None:
        new = numbers(SHAPE, step.b)
        return self._change(step, "host", self.box.host, lambda t: t.set_(new), ".set_(another tensor)")  # type: ignore[call-overload]

    def change_host_swap(self, step: Step) -> str | None:
        self._swap(self.box.host, numbers(SHAPE, step.b))
        return "swap_tensors(host, another)"

    def change_host_resize(self, step: Step) -> str | None:
        rows = 2 if step.b % 2 else 8
        text = f".resize_({rows}, 4), and new values"
        if self.use.variant % 2 and rows > 2:
            return None  # numpy's memory has its size
        new = numbers((rows, 4), step.b)
        return self._change(step, "host", self.box.host, lambda t: t.resize_(rows, 4).copy_(new), text)

    def change_host_t(self, step: Step) -> str | None:
        return self._change(step, "host", self.box.host, lambda t: t.t_(), ".t_()")

    def change_host_drop(self, step: Step) -> str | None:
        """The program lets go of it: what the graph alone owns is a constant."""
        self.drop_host()
        return "del host"

    def change_number_fill(self, step: Step) -> str | None:
        return self._change(step, "s", self.box.number, lambda t: t.fill_(3 + step.b), f".fill_({3 + step.b})")

    def change_number_add(self, step: Step) -> str | None:
        if step.b % 2 and self.use.variant % 2:
            self.box.arrays[1][...] += 1
            return "s's numpy array += 1"
        return self._change(step, "s", self.box.number, lambda t: t.add_(1), ".add_(1)")

    def change_number_data(self, step: Step) -> str | None:
        self.box.number.data = torch.tensor(4.0 + step.b)
        return f"s.data = tensor({4.0 + step.b})"

    # Autocast and other settings

    def change_autocast(self, step: Step) -> str | None:
        self.flags = replace(self.flags, autocast=not self.flags.autocast, cache=step.b % 2 == 0)
        return f"autocast {'on' if self.flags.autocast else 'off'}, cache_enabled={self.flags.cache}"

    def change_capture_in_autocast(self, step: Step) -> str | None:
        """What the block casts was cast before, in the same block of autocast."""
        return self._in_autocast(step, lambda: self.box(self.x), "call eagerly")

    def change_two_captures(self, step: Step) -> str | None:
        return self._in_autocast(step, self.capture_two, "capture")

    def _in_autocast(self, step: Step, before: Callable[[], object], text: str) -> str:
        self.flags = replace(self.flags, autocast=True, cache=step.b % 4 != 3)
        grad = torch.set_grad_enabled(self.flags.grad)
        with grad, torch.autocast(DEVICE, dtype=torch.float16, cache_enabled=self.flags.cache):
            before()
            self.call_first()
        if step.b % 2:
            self.flags = replace(self.flags, autocast=False)
        return f"in one autocast block, cache_enabled={self.flags.cache}: {text}, then capture"

    def change_deterministic(self, step: Step) -> str | None:
        self.flags = replace(self.flags, deterministic=not self.flags.deterministic)
        return f"use_deterministic_algorithms({self.flags.deterministic})"

    def change_math_sdp(self, step: Step) -> str | None:
        self.flags = replace(self.flags, math=not self.flags.math)
        return f"enable_math_sdp({self.flags.math})"

    def change_default_dtype(self, step: Step) -> str | None:
        now = torch.float16 if self.flags.dtype == torch.float32 else torch.float32
        self.flags = replace(self.flags, dtype=now)
        return f"set_default_dtype({now})"

    def change_precision(self, step: Step) -> str | None:
        self.flags = replace(self.flags, precision="high" if self.flags.precision == "highest" else "highest")
        return f'set_float32_matmul_precision("{self.flags.precision}")'

    def change_grad_mode(self, step: Step) -> str | None:
        if self.use.trains:
            return None
        self.flags = replace(self.flags, grad=not self.flags.grad)
        return f"set_grad_enabled({self.flags.grad})"

    def change_inference(self, step: Step) -> str | None:
        if self.use.trains:
            return None
        self.flags = replace(self.flags, inference=not self.flags.inference)
        return f"inference_mode {'on' if self.flags.inference else 'off'}"

    # Optimizers

    def _group(self, key: str, value: Any) -> str | None:
        assert self.optimizer is not None
        group = self.optimizer.param_groups[0]
        if key not in group:
            return None
        if isinstance(group[key], torch.Tensor):
            group[key].fill_(value)
            return f'param_groups[0]["{key}"].fill_({value})'
        group[key] = value
        return f'param_groups[0]["{key}"] = {value}'

    def change_lr(self, step: Step) -> str | None:
        return self._group("lr", 0.5 + step.b / 8)

    def change_momentum(self, step: Step) -> str | None:
        return self._group("momentum", 0.25)

    def change_weight_decay(self, step: Step) -> str | None:
        return self._group("weight_decay", 0.5)

    def change_betas(self, step: Step) -> str | None:
        return self._group("betas", (0.5, 0.75))

    def change_scale(self, step: Step) -> str | None:
        return self._group("scale", 2.0 + step.b)

    def change_scheduler(self, step: Step) -> str | None:
        assert self.optimizer is not None
        scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
        scheduler.step()
        return "ExponentialLR(optimizer, 0.5).step()"

    def change_add_group(self, step: Step) -> str | None:
        assert self.optimizer is not None
        if len(self.optimizer.param_groups) > 1:
            return None
        weight = self.box.weight
        assert isinstance(weight, nn.Parameter)
        weight.grad = torch.ones_like(weight)
        self.optimizer.add_param_group({"params": [weight]})
        return "add_param_group(weight)"

    # Generators

    def change_seed(self, step: Step) -> str | None:
        torch.mps.manual_seed(step.b)
        if self.generator is not None:
            self.generator.manual_seed(step.b)
        return f"manual_seed({step.b})"

    def change_rng_state(self, step: Step) -> str | None:
        state = torch.mps.get_rng_state()
        torch.rand(3 + step.b, device=DEVICE)
        torch.mps.set_rng_state(state)
        return "get_rng_state(); rand(); set_rng_state()"

    def change_other_draws(self, step: Step) -> str | None:
        torch.rand(3 + step.b, device=DEVICE, generator=self.generator)
        return f"rand({3 + step.b})"

    # Captures that must raise

    def change_event(self, step: Step) -> str | None:
        name = list(_EVENTS)[step.b % len(_EVENTS)]
        if not _EVENT:
            _EVENT.append(torch.Event(DEVICE))
        _EVENT[0].record()
        self.refused(_EVENTS[name], {})
        return f"a capture with {name} in its block"

    def change_relaxed(self, step: Step) -> str | None:
        """No mode of CUDA's lets the host read."""
        if self.use.entry != "graph":
            return None
        self.refused(lambda: self.batches.sum().item(), {"capture_error_mode": "relaxed"})
        return 'a capture with .item() in its block, capture_error_mode="relaxed"'
