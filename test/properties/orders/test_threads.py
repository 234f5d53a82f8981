"""Every public call of torch.mps, at random on four threads: no order may hang, and no value may be wrong."""

import faulthandler
import os
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from thread_calls import Hang, run_threads

SECONDS = float(os.environ.get("THREAD_SECONDS", "5"))
THREADS = 4
# Refusals because of what another thread does: one captures at a time, and all threads share the graph of graph_capture().
REFUSALS = ("another thread captures", "being captured", "graph is empty", "without a captured graph")

# graph_reset() drops the graph that another thread replays. The profiler of PyTorch 2.6 adds its handlers to the stream's
# command buffer outside of the queue, where another thread commits it: no graph is needed for that.
NOT_CALLED = {"graph_reset", "profiler"}


class Caller:
    """The calls of one thread, on its own tensors."""

    def __init__(self, number: int) -> None:
        self.x = torch.full((8, 8), float(number + 1), device="mps")
        self.draws = torch.mps.Graph()
        self.sums = torch.mps.Graph()
        self.drawn: torch.Tensor | None = None
        self.sum: torch.Tensor | None = None
        self.generator = torch.Generator(device="mps")
        self.draws.register_generator_state(self.generator)
        self.state = torch.mps.get_rng_state()
        layer = torch.nn.Linear(8, 8).to("mps")
        self.layer = layer
        self.graphed = layer

    def capture_draws(self) -> None:
        self.draws.reset()
        self.drawn = None
        with torch.mps.graph(self.draws):
            drawn = torch.rand(8, device="mps") + torch.rand(8, generator=self.generator, device="mps")
            torch.nn.functional.dropout(self.x, 0.5)
        self.drawn = drawn

    def capture_sum(self) -> None:
        self.sums.reset()
        self.sum = None
        with torch.mps.graph(self.sums, pool=torch.mps.graph_pool_handle()):
            total = (self.x * 2).sum()
        self.sum = total

    def replay(self) -> None:
        if self.drawn is not None:
            self.draws.replay()
            assert 0 <= self.drawn.min().item() <= self.drawn.max().item() < 2
        if self.sum is not None:
            value = random.randrange(100)
            self.x.fill_(value)
            self.sums.replay()
            assert self.sum.item() == value * 128

    def capture_of_all(self) -> None:
        with torch.mps.graph_capture():
            self.x.sum()

    def replay_of_all(self) -> None:
        torch.mps.graph_replay()

    def graph_callable(self) -> None:
        self.graphed = torch.mps.make_graphed_callables(self.layer, (self.x,))

    def call(self) -> None:
        with torch.no_grad():
            assert torch.equal(self.graphed(self.x), self.layer(self.x))

    def seed(self) -> None:
        random.choice(
            (torch.mps.seed, self.generator.seed, lambda: torch.mps.manual_seed(3), lambda: torch.manual_seed(4))
        )()
        self.generator.manual_seed(5)
        torch.mps.get_rng_state()
        torch.mps._get_default_mps_generator().initial_seed()

    def states(self) -> None:
        self.state = torch.mps.get_rng_state()
        torch.mps.set_rng_state(self.state)
        self.generator.set_state(self.generator.get_state())
        with torch.random.fork_rng(devices=[0], device_type="mps"):
            torch.rand(3, device="mps")

    def event(self) -> None:
        start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
        start.record()
        self.x.add_(1)
        end.record()
        end.synchronize()
        end.query()
        assert start.elapsed_time(end) >= 0

    def wait(self) -> None:
        torch.mps.synchronize()
        torch.accelerator.synchronize()

    def memory(self) -> None:
        torch.mps.set_per_process_memory_fraction(1.0)
        torch.mps.current_allocated_memory()
        torch.mps.driver_allocated_memory()
        torch.mps.recommended_max_memory()
        torch.mps.empty_cache()

    def cache(self) -> None:
        torch.mps.set_executable_cache_enabled(random.random() < 0.5)
        torch.mps.is_executable_cache_enabled()
        torch.mps.set_executable_cache_limit(random.choice((1, 100)))
        torch.mps.executable_cache_stats()
        torch.mps.executable_cache_stats_by_operation()
        torch.mps.executable_cache_entries()
        torch.mps.executable_cache_clear()

    def ask(self) -> None:
        torch.mps.is_current_stream_capturing()
        torch.mps.is_available()
        torch.mps.device_count()
        torch.mps.compile_report()
        self.sums.stats()
        torch.mps.MPSGraph().reset()

    def eager(self) -> None:
        torch.rand(9, device="mps").sum().item()


CALLS = [name for name, value in vars(Caller).items() if callable(value) and not name.startswith("_")]


def test_every_public_name_is_called() -> None:
    names = {name for function in vars(Caller).values() if callable(function) for name in function.__code__.co_names}
    assert set(torch.mps.__all__) - names == NOT_CALLED


@pytest.mark.filterwarnings("ignore")
def test_random_calls() -> None:
    faulthandler.dump_traceback_later(SECONDS + 30)
    seed = random.randrange(2**31)
    until = time.monotonic() + SECONDS
    counts: Counter[str] = Counter()

    def work(number: int) -> Callable[[], None]:
        def run() -> None:
            draws = random.Random(seed + number)
            caller = Caller(number)
            while time.monotonic() < until:
                name = draws.choice(CALLS)
                try:
                    getattr(caller, name)()
                    counts[name] += 1
                except RuntimeError as error:
                    if not any(words in str(error) for words in REFUSALS):
                        raise
                    counts[f"{name} refused"] += 1

        return run

    try:
        run_threads(*(work(number) for number in range(THREADS)), timeout=SECONDS + 20)
    except Hang as hang:
        faulthandler.dump_traceback(all_threads=True)
        pytest.exit(f"seed {seed}: {hang}", returncode=1)
    finally:
        faulthandler.cancel_dump_traceback_later()
        torch.mps.set_executable_cache_enabled(False)
    print(f"seed {seed}: {dict(counts)}")
    assert set(CALLS) <= set(counts)
