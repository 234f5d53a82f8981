"""Performs a state program: captures a block, changes what it reads, and replays or calls it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import entry_points as entries
import state_changes
import torch
from causes import names_a_cause
from program import Step, Use
from state_changes import Flags
from state_program import StateUse
from state_subjects import batches, Box, optimizer_of, SHAPE, TRAINED
from subjects import DEVICE, device_numbers
from world import flat, NothingToDo, Result, tensors_of, World


class StateWorld(World):
    """The eager one: a block runs again where a graph would be replayed, under the flags of the capture."""

    def do(self, step: Step) -> str:
        self.doing = step.name
        text: str | None = getattr(state_changes, f"change_{step.name}")(self, step)
        if text is None:
            raise NothingToDo
        return text

    def _set_up(self, uses: tuple[Use, ...]) -> None:
        self.use = cast(StateUse, uses[0])
        use = self.use
        self.box: Box = Box("linear" if use.kind in TRAINED else use.kind, use.variant)
        if use.as_function:
            self.box.requires_grad_(False)
        self.batches = batches(7)
        self.x: torch.Tensor = self.batches[0]
        self.flags = Flags(grad=use.trains or use.entry != "graph")
        self.optimizer = None
        if use.kind == "draws" and use.entry == "graph" and use.variant % 2:
            self.box.__dict__["generator"] = torch.Generator(DEVICE).manual_seed(3)
        self.block_of: Callable[[torch.Tensor], Any] = self.box
        if use.trains:
            self.optimizer = optimizer_of(use.kind, use.variant, list(self.box.linear.parameters()))
            self.block_of = self._train
            # with its state made, as is usual; a count that begins in the first step does so in the capture
            if use.kind != "counter":
                self._train(self.x)
        self.call_first()

    @property
    def is_own_code(self) -> bool:
        """Whether the captured block is the program's own code, which a capture fixes."""
        return self.use.entry == "graph" or (self.use.entry == "graphed" and self.use.as_function)

    @property
    def notices_replaced(self) -> bool:
        """A graph notices that a parameter is gone, and autograd keeps those that a backward pass needs."""
        notices_gone = self.use.entry == "graph" and self.use.checks_liveness and not self.flags_of_capture.grad
        return not self.is_own_code or notices_gone

    def _train(self, x: torch.Tensor) -> Any:
        self.optimizer.zero_grad(set_to_none=False)
        y = self.box(x)
        y.square().sum().backward()
        self.optimizer.step()
        return y.detach()

    @contextlib.contextmanager
    def _under(self, flags: Flags) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            flags.enter(stack)
            yield

    # Calls

    def make(self) -> None:
        """What is captured runs once: `x` stands for the memory that it reads."""
        self.flags_of_capture = self.flags
        x = self.x
        self.block: Callable[[], list[torch.Tensor]] = lambda: flat(
            self.block_of(x if self.use.entry == "graph" else self.x)
        )

    def first(self) -> list[torch.Tensor]:
        return self.block()

    def again(self) -> list[torch.Tensor]:
        with self._under(self.flags_of_capture if self.use.entry == "graph" else self.flags):
            return self.block()

    def call_first(self) -> None:
        self.make()
        with self._under(self.flags):
            outputs = self.first()
        self._show(outputs)

    def call_again(self) -> None:
        self._show(self.again())

    def _show(self, outputs: list[torch.Tensor]) -> None:
        self.results = [Result("y", outputs)]
        if self.use.entry != "graph" and any(t.requires_grad for t in outputs):
            cast(Any, sum(t.sum() for t in outputs)).backward()
        self._look()

    def refused(self, call: Callable[[], Any], options: dict[str, str]) -> None:
        """A capture of a call that it must refuse."""

    def capture_another(self) -> None:
        """A capture before the one that is used on, both in the block of an autocast."""
        with self._under(self.flags):
            self.box(self.x)

    def _named(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from ((f"y[{i}]", tensor) for i, tensor in enumerate(self.results[0].tensors if self.results else []))
        yield "x", self.x
        yield from tensors_of(self.box)
        if self.box.generator is not None:
            yield "generator", self.box.generator.get_state().to(torch.int64).to(DEVICE)

    def close(self) -> None:
        self.box.__dict__.pop("forward", None)


class TracedStateWorld(StateWorld):
    """What is compiled is traced by AOTAutograd, and not captured."""

    def make(self) -> None:
        super().make()
        if self.use.entry == "compiled":
            function = entries.traced(f"state_{self.use.kind}", "compiled")
            self.block = lambda: flat(function(self.box, self.x))


class GraphStateWorld(StateWorld):
    """Captures anew where a replay or a call raised with a cause, as its message says, and goes on."""

    def make(self) -> None:
        super().make()
        if self.use.entry == "graphed":
            self.box.__dict__.pop("forward", None)
            box = self.box
            # the modes of a call are not those of a capture, but operands of several dtypes need autocast
            dtypes = {t.dtype for t in (self.x, *box.parameters())}
            autocast = self.flags.autocast and dtypes != {torch.float32}
            with self._under(replace(self.flags, grad=True, inference=False, autocast=autocast)):
                (self.callable,) = entries.make_graphed(
                    [(lambda x: box(x)) if self.use.as_function else box], [device_numbers(tuple(self.x.shape), 5).to(self.x.dtype)]
                )
            self.block = lambda: flat(self.callable(self.x))
        elif self.use.entry == "compiled":
            function = entries.compiled(f"state_{self.use.kind}", "compiled")
            self.block = lambda: flat(function(self.box, self.x))

    def first(self) -> list[torch.Tensor]:
        if self.use.entry != "graph":
            return self.block()
        self.graph = entries.mps.MPSGraph()
        with entries.mps.graph(self.graph, empty_cache=False, check_input_liveness=self.use.checks_liveness):
            self.outputs = self.block()
        return self.outputs

    def again(self) -> list[torch.Tensor]:
        if self.use.entry != "graph":
            return super().again()
        with self._under(self.flags):
            self.graph.replay()
        return self.outputs

    def call_again(self) -> None:
        try:
            outputs = self.again()
        except (RuntimeError, TypeError) as error:
            self._raised(error)
            outputs = self._capture_anew()
        self._show(outputs)

    def _raised(self, error: Exception) -> None:
        if not names_a_cause(error):
            raise error
        self.outcome.raised = self.outcome.raised or f"{type(error).__name__}: {error}"

    def _capture_anew(self) -> list[torch.Tensor]:
        entries.let_go()
        flags = self.flags
        self.flags = self.flags_of_capture if self.use.entry == "graph" else flags
        try:
            block = self.block
            self.make()
            self.block = block if self.use.entry == "graph" else self.block
            with self._under(self.flags):
                return self.first()
        finally:
            self.flags = flags

    def refused(self, call: Callable[[], Any], options: dict[str, str]) -> None:
        if self.use.entry == "compiled":
            return  # which runs the model in pieces

        def block(x: torch.Tensor) -> torch.Tensor:
            call()
            return x * 2

        try:
            if self.use.entry == "graph":
                with entries.mps.graph(entries.mps.MPSGraph(), empty_cache=False, **options):
                    block(self.batches)
            else:
                entries.make_graphed([block], [device_numbers(SHAPE, 5)])
        except RuntimeError as error:
            self._raised(error)
        else:
            raise AssertionError("a capture did not refuse its block")

    def capture_another(self) -> None:
        if self.use.entry != "graph":
            super().capture_another()
            return
        with self._under(self.flags), entries.mps.graph(entries.mps.MPSGraph(), empty_cache=False):
            self.box(self.x)
