"""Performs a program: what its steps work on, and what is seen after each."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import entry_points as entries
import torch
from causes import names_a_cause
from program import Program, Step, Use
from subjects import DEVICE, device_numbers, draws, make, MODULES, Target
from thread_calls import call_from_threads, Hang
from torch import nn
from torch.func import functional_call  # type: ignore[attr-defined]

Thing = TypeVar("Thing")
# So many results, subjects and captures are kept; the oldest goes first.
MOST_RESULTS, MOST_SUBJECTS, MOST_CAPTURES = 8, 5, 3
SEED = 7
# The rows are another number than the columns, so that dynamic shapes keep them apart.
SHAPE = (6, 4)


class NothingToDo(Exception):
    """A step finds nothing that it could work on."""


def choose(among: list[Thing], number: int) -> Thing:
    """One of these; raises if there is none."""
    if not among:
        raise NothingToDo
    return among[number % len(among)]


@dataclass(eq=False)
class Subject:
    """A target, and the way in which it is called."""

    name: str
    use: Use
    target: Target
    call: Callable[[torch.Tensor], Any]
    static: torch.Tensor | None = None
    optimizer: torch.optim.Optimizer | None = None
    averaged_of: Subject | None = None
    captured: Capture | None = None
    trains_captured: bool = False
    # counts changes that a capture fixes, as CUDA's does: attributes, modes, what requires gradients
    changes: int = 0

    @property
    def module(self) -> Any:
        """None for a function."""
        return self.target if isinstance(self.target, nn.Module) else None

    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        return list(self.module.named_parameters()) if self.module else []


@dataclass(eq=False)
class Capture:
    """A block of a subject that is repeated, by replays or by running it again."""

    name: str
    subject: Subject
    static: torch.Tensor
    block: entries.Captured | entries.Repeated
    changes: int

    @property
    def is_valid(self) -> bool:
        return self.changes == self.subject.changes


@dataclass(eq=False)
class Pass:
    """A forward pass, of which results may be kept in several forms; its backward pass runs once."""

    is_done: bool = False


@dataclass(eq=False)
class Result:
    """What a call returned and the program keeps."""

    name: str
    tensors: list[torch.Tensor]
    entry: str = ""
    passes: Pass = field(default_factory=Pass)

    @property
    def is_pending(self) -> bool:
        return not self.passes.is_done and any(t.requires_grad for t in self.tensors)


@dataclass(frozen=True)
class Seen:
    """What was read, by name: bytes, and what autograd says of the tensor. What raised when it was read has none."""

    values: dict[str, bytes]
    refused: frozenset[str]
    generator: bytes


class Observer:
    """Reads all tensors with one wait for the device: each is copied to a piece of one buffer."""

    _SIZE = 1 << 15

    def __init__(self) -> None:
        self._bytes = torch.empty(self._SIZE, dtype=torch.uint8, device=DEVICE)
        self._views = {dtype: self._bytes.view(dtype) for dtype in (torch.float32, torch.float16, torch.int64)}

    def see(self, named: Iterable[tuple[str, torch.Tensor]]) -> Seen:
        places: list[tuple[str, int, int, bytes]] = []
        refused = set()
        used = 0
        with torch.no_grad():
            for name, tensor in named:
                try:
                    size, length = tensor.element_size(), tensor.numel()
                    start = used // size
                    self._views[tensor.dtype][start : start + length].view(tensor.shape).copy_(tensor)
                except RuntimeError as error:
                    if not names_a_cause(error):
                        raise
                    refused.add(name)
                    continue
                what = f"{tensor.dtype} {[*tensor.shape]} {tensor.requires_grad}".encode()
                places.append((name, used, used + size * length, what))
                used += -(-size * length // 8) * 8
            content = self._bytes[:used].cpu().numpy().tobytes() if used else b""
        values = {name: content[a:b] + what for name, a, b, what in places}
        return Seen(values, frozenset(refused), bytes(torch.mps.get_rng_state().numpy()))


@dataclass
class Outcome:
    # the texts of the steps that did something, by their numbers
    done: dict[int, str] = field(default_factory=dict)
    snapshots: list[Seen] = field(default_factory=list)
    error: BaseException | None = None
    failed_at: int = -1
    # the first error with a cause after which a state program went on
    raised: str = ""


@functools.cache
def _observer() -> Observer:
    return Observer()


def flat(outputs: Any) -> list[torch.Tensor]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def tensors_of(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        yield prefix + name, tensor
        if isinstance(tensor, nn.Parameter) and tensor.grad is not None:
            yield f"{prefix}{name}.grad", tensor.grad


def _scaled_copy(module: nn.Module, factor: float) -> nn.Module:
    new = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.mul_(factor)
    return new


def _sum_of(tensors: Sequence[torch.Tensor]) -> Any:
    return functools.reduce(torch.add, (tensor.sum() for tensor in tensors))


class World:
    """The eager one: every subject is called as it is, and a block runs again where a graph would be replayed."""

    make_block: Callable[[entries.Block], entries.Captured | entries.Repeated] = entries.Repeated

    def __init__(self) -> None:
        self.subjects: list[Subject] = []
        self.results: list[Result] = []
        self.captures: list[Capture] = []
        self.outcome = Outcome()
        self.weight = device_numbers((1,), 9).requires_grad_()
        self.inputs = [device_numbers(SHAPE, i) for i in range(2)]
        self.leaves = {"x2": device_numbers(SHAPE, 2).requires_grad_()}
        self.counts: dict[str, int] = {}
        # the step underway, for those that may raise
        self.doing = ""

    # The ways to run: what the other worlds replace

    def graph_all(self, targets: list[Target], samples: list[torch.Tensor]) -> list[Target]:
        return targets

    def compiled(self, use: Use) -> entries.Call:
        """What calls a target that is compiled."""
        return entries.call

    def call_of(self, use: Use, target: Target) -> Callable[[torch.Tensor], Any]:
        function = self.compiled(use) if use.entry.startswith("compiled") else entries.call
        return target if function is entries.call else lambda x: function(target, x)

    def statics_of(self, target: Target, sample: torch.Tensor) -> torch.Tensor:
        return sample.detach().clone().requires_grad_(sample.requires_grad)

    def threads(self, subject: Subject, inputs: list[torch.Tensor]) -> list[list[torch.Tensor]]:
        with torch.no_grad():
            return [[flat(subject.call(x))[0] for _ in range(2)] for x in inputs]

    # The program

    def perform(self, program: Program) -> Outcome:
        """What is seen: all there is at the end or when a step raises, and before a step that something is lost by."""
        outcome = self.outcome
        torch.mps.manual_seed(SEED)
        number = -1
        try:
            self._set_up(program.uses)
            for number, step in enumerate(program.steps):
                self.doing = f"{step.name}({step.a}, {step.b})"
                try:
                    outcome.done[number] = self.do(step)
                except NothingToDo:
                    continue
        except Exception as error:
            # its frames would keep this world
            error.__traceback__ = error.__context__ = error.__cause__ = None
            outcome.error, outcome.failed_at = error, number
            outcome.done[number] = self.doing
        if not isinstance(outcome.error, Hang):
            self._look()
        return outcome

    def do(self, step: Step) -> str:
        """Performs a step, and returns its text."""
        return getattr(self, f"do_{step.name}")(step)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Breaks the circles that graphed modules are part of, so that their graphs go now."""
        for subject in self.subjects:
            if subject.module is not None:
                subject.module.__dict__.pop("forward", None)

    def _look(self) -> None:
        self.outcome.snapshots.append(_observer().see(self._named()))

    def _named(self) -> Iterator[tuple[str, torch.Tensor]]:
        for result in self.results:
            for i, tensor in enumerate(result.tensors):
                yield f"{result.name}[{i}]", tensor
        for subject in self.subjects:
            if subject.module is not None:
                yield from tensors_of(subject.module, f"{subject.name}.")
        for name, leaf in (("w", self.weight), *self.leaves.items()):
            if leaf.grad is not None:
                yield f"{name}.grad", leaf.grad

    def _set_up(self, uses: tuple[Use, ...]) -> None:
        for i, use in enumerate(uses):
            target = make(use.kind)
            if isinstance(target, nn.Module):
                target.train(not use.evaluates)
                if use.frozen:
                    next(target.parameters()).requires_grad_(False)
            self.subjects.append(Subject(f"m{i}", use, target, target))
        alone = [[s] for s in self.subjects if s.use.entry == "graphed"]
        together = [s for s in self.subjects if s.use.entry == "graphed together"]
        for group in [*alone, *([together] if together else [])]:
            wants = [s.use.input_gradients and s.use.kind != "writes" for s in group]
            samples = [device_numbers(SHAPE, 5).requires_grad_(w) for w in wants]
            made = self.graph_all([s.target for s in group], samples)
            for subject, target, sample in zip(group, made, samples, strict=True):
                subject.target = target
                subject.static = self.statics_of(target, sample)
        for subject in self.subjects:
            subject.call = self.call_of(subject.use, subject.target)

    # What steps choose from

    def _name(self, letter: str) -> str:
        number = self.counts.get(letter, 0)
        self.counts[letter] = number + 1
        return f"{letter}{number}"

    def _subject(self, a: int, without: tuple[str, ...] = ()) -> Subject:
        """Raises for one of an entry point or kind that the step is not for."""
        subject = choose(self.subjects, a)
        if subject.use.entry in without or subject.use.kind in without:
            raise NothingToDo
        return subject

    def _with_parameters(self, a: int) -> Subject:
        return choose([s for s in self.subjects if s.use.kind in MODULES], a)

    def _copied(self, a: int) -> Subject:
        subject = self._with_parameters(a)
        if subject.averaged_of is not None or len(self.subjects) >= MOST_SUBJECTS:
            raise NothingToDo
        return subject

    def _parameter(self, a: int, b: int) -> tuple[Subject, str, nn.Parameter]:
        subject = self._with_parameters(a)
        return subject, *choose(subject.parameters(), b)

    def _input(self, subject: Subject, b: int) -> tuple[torch.Tensor, str]:
        x, text = self.inputs[b % 2], f"x{b % 2}"
        if subject.use.input_gradients and subject.use.kind != "writes":
            if b % 4 == 2:
                x, text = self.leaves["x2"], "x2"
            elif b % 4 == 3:
                x, text = self.inputs[1] * self.weight, "x1 * w"
        if subject.use.kind == "writes":
            x, name = x.detach().clone(), self._name("c")
            self._keep(Result(name, [x]))
            text = f"{name} := {text}.clone()"
        return x, text

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        del self.results[:-MOST_RESULTS]

    def _keep_outputs(self, subject: Subject, outputs: Any) -> Result:
        result = Result(self._name("r"), flat(outputs), subject.use.entry)
        self._keep(result)
        return result

    def _optimizer(self, subject: Subject) -> torch.optim.Optimizer:
        if subject.optimizer is None:
            parameters = [p for _, p in subject.parameters()]
            subject.optimizer = (
                torch.optim.AdamW(parameters, lr=0.125, capturable=True)
                if subject.use.adam
                else torch.optim.SGD(parameters, lr=0.25, momentum=0.5)
            )
        return subject.optimizer

    # Calls

    def do_forward(self, step: Step) -> str:
        subject = self._subject(step.a)
        if subject.use.entry == "captured" and subject.captured and subject.captured.is_valid:
            return self._replay(subject.captured, step.b)
        if subject.use.entry == "captured":
            subject.captured = self._capture(subject, training=False)
            return f"{subject.captured.name} = capture of {subject.name}"
        x, text = self._input(subject, step.b)
        result = self._keep_outputs(subject, subject.call(x))
        return f"{result.name} = {subject.name}({text})"

    def do_forward_no_grad(self, step: Step) -> str:
        with torch.no_grad():
            return f"no_grad: {self.do_forward(step)}"

    def do_autocast(self, step: Step) -> str:
        # flags are those of the capture, and another trace takes its time
        if self._subject(step.a, without=("captured",)).use.entry.startswith("compiled") and step.b:
            raise NothingToDo
        with torch.autocast(DEVICE, dtype=torch.float16):
            return f"autocast: {self.do_forward(step)}"

    def do_other_shape(self, step: Step) -> str:
        # a static trace is another function with another pool
        subject = self._subject(step.a, without=("captured", "graphed", "graphed together", "compiled", "writes"))
        x = self.inputs[step.b % 2][: 2 + step.b % 2]
        with torch.no_grad() if step.b >= 4 else contextlib.nullcontext():
            result = self._keep_outputs(subject, subject.call(x))
        return f"{'no_grad: ' if step.b >= 4 else ''}{result.name} = {subject.name}(x{step.b % 2}[:{len(x)}])"

    def do_static(self, step: Step) -> str:
        """Calls with the static input itself, or with a negative view of it."""
        subject = self._subject(step.a, without=("writes",))
        if subject.static is None:
            raise NothingToDo
        with torch.no_grad():
            subject.static.copy_(self.inputs[step.b % 2])
        is_negative = step.b >= 6
        x = torch._neg_view(subject.static) if is_negative else subject.static
        result = self._keep_outputs(subject, subject.call(x))
        text = f"{subject.name}.static.copy_(x{step.b % 2}); {result.name} = {subject.name}({subject.name}.static"
        return f"{text}{' as a negative view' if is_negative else ''})"

    def do_functional(self, step: Step) -> str:
        subject, name, parameter = self._parameter(step.a, step.b)
        if subject.use.entry not in ("eager", "graphed", "graphed together"):
            raise NothingToDo
        new = (parameter.detach() * 2).requires_grad_()
        leaf = self._name("n")
        self.leaves[leaf] = new
        x, text = self._input(subject, step.b)
        outputs = functional_call(subject.module, {name: new}, (x,))
        result = self._keep_outputs(subject, outputs)
        call = f"functional_call({subject.name}, {{{name!r}: {leaf}}}, {text})"
        return f"{leaf} = {subject.name}.{name} * 2; {result.name} = {call}"

    def do_threads(self, step: Step) -> str:
        subject = self._subject(step.a, without=("captured", "writes"))
        if draws(subject.target):
            raise NothingToDo
        for results in self.threads(subject, self.inputs):
            self._keep(Result(self._name("t"), results))
        return f"{subject.name}(x0) and {subject.name}(x1) by two threads, under no_grad"

    # Backward passes

    def do_backward(self, step: Step) -> str:
        result = choose([r for r in self.results if r.is_pending], step.a)
        return self._backward(result, step.b)

    def _backward(self, result: Result, b: int) -> str:
        if result.entry.startswith("compiled"):
            b %= 7  # AOTAutograd raises for retain_graph=True
        heads = [i for i, t in enumerate(result.tensors) if t.requires_grad]
        heads = heads[:1] if b % 4 == 1 else heads
        parts = [result.tensors[i] for i in heads]
        if b % 4 == 2:
            parts, what = [part.square() for part in parts], ".square().sum()"
        else:
            what = ".sum()"
        names = " + ".join(f"{result.name}[{i}]{what}" for i in heads)
        self.doing = f"({names}).backward({'retain_graph=True' if b == 7 else ''})"
        loss = _sum_of(parts)
        loss.backward(retain_graph=b == 7)
        result.passes.is_done = b != 7
        return self.doing

    def do_train(self, step: Step) -> str:
        """An ordinary step: forward, backward, and for odd b the optimizer."""
        subject = self._subject(step.a, without=("captured",))
        text = [self.do_forward(step)]
        result = self.results[-1]
        if not result.is_pending:
            return text[0]
        text.append(self._backward(result, 0))
        if step.b % 2 and subject.use.kind in MODULES:
            self._optimizer(subject).step()
            text.append(f"{subject.name} optimizer step")
        return "; ".join(text)

    def do_second_order(self, step: Step) -> str:
        subject = self._subject(step.a, without=("captured", "writes"))
        if not subject.use.input_gradients:
            raise NothingToDo
        x, name = self.inputs[step.b % 2].detach().clone().requires_grad_(), self._name("y")
        self.leaves[name] = x
        loss = f"{subject.name}({name}).sum()"
        self.doing = f"{name} = x{step.b % 2}.clone(); g, = grad({loss}, {name}, create_graph=True); ({loss} + g.pow(2).sum()).backward()"
        total = _sum_of(flat(subject.call(x)))
        (gradient,) = torch.autograd.grad(total, x, create_graph=True)
        (total + gradient.pow(2).sum()).backward()
        return self.doing

    def do_use(self, step: Step) -> str:
        """An eager computation that saves a result."""
        result = choose(self.results, step.a)
        # what needs no gradients belongs to no pass
        passes = result.passes if result.tensors[0].requires_grad else Pass()
        new = Result(self._name("z"), [result.tensors[0] * self.weight], result.entry, passes)
        self._keep(new)
        return f"{new.name} = {result.name}[0] * w"

    # What is kept

    def do_derive(self, step: Step) -> str:
        """Keeps what comes of a result in place of the result."""
        result = choose(self.results, step.a)
        self._look()
        tensor = result.tensors[-1]
        forms: list[tuple[Callable[[], torch.Tensor], str]] = [
            (lambda: tensor[0], "[0]"),
            (lambda: tensor.detach(), ".detach()"),
            (lambda: tensor.view(-1), ".view(-1)"),
        ]
        new, text = forms[step.b % 3]
        done = Result(self._name("r"), [new()], result.entry, result.passes)
        self.results.remove(result)
        self.results.append(done)
        return f"{done.name} = {result.name}[{len(result.tensors) - 1}]{text}; del {result.name}"

    def do_drop(self, step: Step) -> str:
        result = choose(self.results, step.a)
        self._look()
        self.results.remove(result)
        return f"del {result.name}"

    def do_keep_gradient(self, step: Step) -> str:
        subject, name, parameter = self._parameter(step.a, step.b)
        if parameter.grad is None:
            raise NothingToDo
        result = Result(self._name("g"), [parameter.grad])
        self._keep(result)
        return f"{result.name} = {subject.name}.{name}.grad"

    def do_inputs(self, step: Step) -> str:
        self.inputs[step.a % 2] = self.inputs[step.a % 2] + 0.5
        return f"x{step.a % 2} = x{step.a % 2} + 0.5"

    # Captures

    def _capture(self, subject: Subject, training: bool) -> Capture:
        static = self.inputs[0].detach().clone()
        if training:
            optimizer = self._optimizer(subject)

            def block() -> list[torch.Tensor]:
                optimizer.zero_grad(set_to_none=False)
                outputs = flat(subject.call(static))
                _sum_of(outputs).backward()
                optimizer.step()
                return [t.detach() for t in outputs]

            block()
            block()
        else:

            def block() -> list[torch.Tensor]:
                with torch.no_grad():
                    return flat(subject.call(static.clone() if subject.use.kind == "writes" else static))

            block()
        capture = Capture(self._name("G"), subject, static, type(self).make_block(block), subject.changes)
        self.captures.append(capture)
        del self.captures[:-MOST_CAPTURES]
        self._keep(Result(f"{capture.name}.y", list(capture.block.results), subject.use.entry))
        return capture

    def do_capture(self, step: Step) -> str:
        """Captures a call, which may be that of a graphed or compiled subject."""
        subject = self._subject(step.a, without=("captured",))
        return f"{self._capture(subject, training=False).name} = capture of {subject.name}(static)"

    def do_capture_training(self, step: Step) -> str:
        subject = self._with_parameters(step.a)
        is_trained = subject.averaged_of is None and all(p.requires_grad for _, p in subject.parameters())
        if subject.use.entry == "captured" or not is_trained:
            raise NothingToDo
        subject.trains_captured = True
        name = self._capture(subject, training=True).name
        return f"{name} = capture of a training step of {subject.name}(static)"

    def _replay(self, capture: Capture, b: int) -> str:
        self._look()
        with torch.no_grad():
            capture.static.copy_(self.inputs[b % 2])
        capture.block.replay()
        return f"{capture.name}.static.copy_(x{b % 2}); {capture.name}.replay()"

    def do_replay(self, step: Step) -> str:
        capture = choose([c for c in self.captures if c.is_valid], step.a)
        return self._replay(capture, step.b)

    # Weights and what modules consist of

    def do_update(self, step: Step) -> str:
        subject, name, parameter = self._parameter(step.a, step.b)
        with torch.no_grad():
            parameter.mul_(0.5)
        return f"{subject.name}.{name}.mul_(0.5)"

    def do_optimizer(self, step: Step) -> str:
        subject = self._with_parameters(step.a)
        if not any(p.grad is not None for _, p in subject.parameters()):
            raise NothingToDo
        self._optimizer(subject).step()
        return f"{subject.name} optimizer step"

    def do_zero_grad(self, step: Step) -> str:
        subject = self._with_parameters(step.a)
        self._look()
        # a captured step goes on with the gradients that it found
        to_none = step.b % 4 > 0 and not subject.trains_captured
        subject.module.zero_grad(set_to_none=to_none)
        return f"{subject.name}.zero_grad({'' if to_none else 'set_to_none=False'})"

    def _add_subject(self, subject: Subject, target: nn.Module, averaged: bool) -> Subject:
        use = subject.use._replace(entry="eager") if averaged and subject.use.entry == "captured" else subject.use
        new = Subject(f"m{len(self.subjects)}", use, target, self.call_of(use, target))
        new.averaged_of = subject if averaged else None
        self.subjects.append(new)
        return new

    def do_copy(self, step: Step) -> str:
        subject = self._copied(step.a)
        new = self._add_subject(subject, _scaled_copy(subject.module, 2), averaged=False)
        return f"{new.name} = deepcopy({subject.name}), its parameters * 2"

    def do_averaged(self, step: Step) -> str:
        subject = self._copied(step.a)
        new = self._add_subject(subject, torch.optim.swa_utils.AveragedModel(subject.module), averaged=True)
        return f"{new.name} = AveragedModel({subject.name})"

    def do_ema(self, step: Step) -> str:
        subject = choose([s for s in self.subjects if s.averaged_of is not None], step.a)
        subject.target.update_parameters(subject.averaged_of.module)  # type: ignore[union-attr, operator]
        return f"{subject.name}.update_parameters({subject.averaged_of.name})"

    def do_mode(self, step: Step) -> str:
        subject = self._with_parameters(step.a)
        modules = list(subject.module.named_modules())
        if subject.use.entry.startswith("compiled"):
            modules = modules[:1]  # each combination is another trace
        name, module = modules[step.b % len(modules)]
        module.train(not module.training)
        subject.changes += 1
        where = f"{subject.name}.{name}" if name else subject.name
        return f"{where}.{'train' if module.training else 'eval'}()"

    def do_replace(self, step: Step) -> str:
        subject, name, parameter = self._parameter(step.a, step.b)
        subject.changes += 1
        path, _, attribute = name.rpartition(".")
        owner = subject.module.get_submodule(path)
        what = ("parameter", "buffer", "submodule")[step.a // 3 % 3] if step.a >= 3 else "parameter"
        if what == "submodule" and path:
            above, _, last = path.rpartition(".")
            setattr(subject.module.get_submodule(above), last, _scaled_copy(owner, 0.5))
            return f"{subject.name}.{path} = deepcopy of it, its parameters * 0.5"
        buffers = [(n, t) for n, t in owner.named_buffers(recurse=False) if t.is_floating_point()]
        if what == "buffer" and buffers:
            setattr(owner, buffers[0][0], buffers[0][1] + 1)
            return f"{subject.name}.{path}.{buffers[0][0]} = it + 1"
        setattr(owner, attribute, nn.Parameter(parameter.detach() * 0.5, parameter.requires_grad))
        return f"{subject.name}.{name} = Parameter(it * 0.5)"

    def do_freeze(self, step: Step) -> str:
        # only a first weight: upstream's BatchNorm leaves its gradients uninitialized if its input needs none
        subject, name, parameter = self._parameter(step.a, 0)
        # Dynamo does not look at requires_grad again, whatever the backend
        if subject.use.entry.startswith("compiled"):
            raise NothingToDo
        subject.changes += 1
        parameter.requires_grad_(not parameter.requires_grad)
        return f"{subject.name}.{name}.requires_grad_({parameter.requires_grad})"

    def do_load(self, step: Step) -> str:
        subject = self._with_parameters(step.a)
        subject.changes += 1
        state = {k: v * 0.5 if v.is_floating_point() else v.clone() for k, v in subject.module.state_dict().items()}
        subject.module.load_state_dict(state, assign=True)
        return f"{subject.name}.load_state_dict(its own * 0.5, assign=True)"


class ReferenceWorld(World):
    """As the eager one, but what is compiled is traced by AOTAutograd, which may round or raise otherwise."""

    def compiled(self, use: Use) -> entries.Call:
        return entries.traced(use.kind, use.entry)


class GraphWorld(World):
    """Every subject is called through its entry point."""

    make_block = entries.Captured

    def graph_all(self, targets: list[Target], samples: list[torch.Tensor]) -> list[Target]:
        return list(entries.make_graphed(targets, samples))

    def statics_of(self, target: Target, sample: torch.Tensor) -> torch.Tensor:
        graphed: Any = target.forward if isinstance(target, nn.Module) else target
        static: torch.Tensor
        (static,) = graphed.static_inputs
        return static

    def compiled(self, use: Use) -> entries.Call:
        return entries.compiled(use.kind, use.entry)

    def threads(self, subject: Subject, inputs: list[torch.Tensor]) -> list[list[torch.Tensor]]:
        is_view = subject.use.entry == "compiled views"  # of memory that the next call overwrites
        return call_from_threads(
            lambda x: flat(subject.call(x))[0].clone() if is_view else flat(subject.call(x))[0], inputs
        )
