"""`generate()` of language models: tokens of eager's, by replays, greedy and sampled."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import CompileConfig, HybridCache, StaticCache

from real_models.hugging_face import language_model
from real_models.measure import mps, Outcome, reason_of, Row

# The first is captured; then another one of its length, a longer and a shorter one.
PROMPTS = ((2, 5), (2, 5), (2, 8), (2, 3))
SAME_LENGTH = 1
# A limit on the whole text, as a server has it: the length of the cache is that for all prompts.
LENGTH = 20
CHOICES = ("greedy", "sampled")
# The kind of these rows.
GENERATE = "generate"
Tokens = list[torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A model, its cache, and what makes graphs of its steps."""

    name: str
    # "static", "hybrid" or "dynamic"
    cache: str
    # "forward" (compiled by us), "library" (generate() compiles what decodes) or "by hand" (one captured step)
    way: str

    @property
    def title(self) -> str:
        """What messages and `--only` call it."""
        return f"{GENERATE} {self.name} ({self.cache}, {self.way})"


_STATIC_MODELS = ("llama", "mistral", "qwen2", "phi3")
# Those of --quick.
QUICK_CASES = (Case("llama", "static", "library"), Case("llama", "static", "by hand"))


def cases() -> Iterator[Case]:
    """In the order of the page.

    GPT-2 is first: after gemma2 in the same process it gives other tokens than eager, and so it does through Dynamo's
    backend that runs what it traces eagerly.
    """
    yield Case("gpt2", "dynamic", "forward")
    for name in _STATIC_MODELS:
        for way in ("forward", "library", "by hand"):
            yield Case(name, "static", way)
    yield Case("gemma2", "hybrid", "forward")
    yield Case("gemma2", "hybrid", "by hand")


class Generator:
    """A model with random weights that `generate()` is called of."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        self.model = language_model(case.name).eval().to("mps")
        self.model.generation_config.eos_token_id = None
        generator = torch.Generator().manual_seed(1)
        self.prompts = [torch.randint(5, 99, shape, generator=generator).to("mps") for shape in PROMPTS]
        self.own: Any = None

    def cache(self) -> Any:
        """One of our own, empty, at the same place each time."""
        if self.own is None:
            kind = {"static": StaticCache, "hybrid": HybridCache}[self.case.cache]
            self.own = kind(self.model.config, PROMPTS[0][0], LENGTH, "mps", self.model.dtype)
        self.own.reset()
        return self.own

    def generate(self, prompt: torch.Tensor, choice: str, **options: Any) -> torch.Tensor:
        if self.case.cache != "dynamic":
            options["cache_implementation"] = self.case.cache
        torch.manual_seed(3)
        tokens: torch.Tensor = self.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_length=LENGTH,
            do_sample=choice == "sampled",
            top_k=0,
            **options,
        )
        return tokens


class Step:
    """One step of decoding: a token goes in, and the next one takes its place."""

    def __init__(self, generator: Generator, choice: str) -> None:
        self.model = generator.model
        self.choice = choice
        self.cache = generator.cache()
        self.token = torch.zeros(PROMPTS[0][0], 1, dtype=torch.long, device="mps")
        self.position = torch.zeros(1, dtype=torch.long, device="mps")

    def begin(self, prompt: torch.Tensor) -> None:
        """The prompt, eagerly, and the first token."""
        torch.manual_seed(3)
        self.cache.reset()
        self.choose(prompt, torch.arange(prompt.shape[1], device="mps"))
        self.position.fill_(prompt.shape[1])

    def choose(self, tokens: torch.Tensor, positions: torch.Tensor) -> None:
        """The next token."""
        scores = self.model(tokens, cache_position=positions, past_key_values=self.cache).logits[:, -1].float()
        if self.choice == "sampled":
            self.token.copy_(torch.multinomial(scores.softmax(-1), 1))
        else:
            self.token.copy_(scores.argmax(-1, keepdim=True))

    def __call__(self) -> None:
        self.choose(self.token, self.position)
        self.position.add_(1)


def _by_hand(generator: Generator, choice: str, wanted: Tokens) -> Outcome:
    """Tokens of all prompts, by one captured step."""
    step = Step(generator, choice)
    graph = mps.MPSGraph()
    step.begin(generator.prompts[0])
    try:
        with mps.graph(graph):
            step()
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return Outcome("refused", reason_of(error))
    replays = 0
    for number, (prompt, tokens) in enumerate(zip(generator.prompts, wanted)):
        step.begin(prompt)
        found = [prompt, step.token.clone()]
        for _ in range(LENGTH - prompt.shape[1] - 1):
            graph.replay()
            replays += 1
            found.append(step.token.clone())
        if not torch.equal(torch.cat(found, 1), tokens):
            return Outcome("differs", f"prompt {number}")
    graph.reset()
    return Outcome("equal", steps={"captures": 1, "replays": replays})


_COUNTS = ("captures", "replays", "eager_calls")


def _counts() -> dict[str, int]:
    reports = mps.compile_report()
    return {count: sum(report[count] for report in reports) for count in _COUNTS}


def _compiled(generator: Generator, choice: str, wanted: Tokens, options: dict[str, Any]) -> Outcome:
    """Tokens of all prompts; the counts are those of the prompt that has the length of the first."""
    steps: dict[str, int] = {}
    splits: list[str] = []
    try:
        for number, (prompt, tokens) in enumerate(zip(generator.prompts, wanted)):
            before = _counts()
            found = generator.generate(prompt, choice, **options)
            if not torch.equal(found, tokens):
                return Outcome("differs", f"prompt {number}")
            if number == SAME_LENGTH:
                steps = {count: after - before[count] for count, after in _counts().items()}
                splits = [split["operator"] for report in mps.compile_report() for split in report["splits"]]
    except Exception as error:  # whatever it is, eager did without
        return Outcome("fails", reason_of(error))
    decoding = LENGTH - PROMPTS[SAME_LENGTH][1] - 1
    outcome = Outcome("equal", steps=steps, splits=splits)
    if steps["captures"] >= steps["replays"] or steps["replays"] < decoding:
        outcome.outcome, outcome.reason = "fails", f"{decoding} steps were {steps}"
    return outcome


def _outcomes(generator: Generator) -> dict[str, Outcome]:
    wanted: dict[str, Tokens] = {}
    try:
        for choice in CHOICES:
            wanted[choice] = [generator.generate(prompt, choice) for prompt in generator.prompts]
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return {choice: Outcome("no eager", reason_of(error)) for choice in CHOICES}
    if generator.case.way == "by hand":
        return {choice: _by_hand(generator, choice, wanted[choice]) for choice in CHOICES}
    options: dict[str, Any] = {}
    if generator.case.way == "forward":
        generator.model.forward = torch.compile(generator.model.forward, backend="mpsgraphs")
    else:
        # With it `generate()` compiles its decoding by itself, on another device than CUDA.
        config = options["compile_config"] = CompileConfig(fullgraph=False, backend="mpsgraphs", mode=None)
        config._compile_all_devices = True
    return {choice: _compiled(generator, choice, wanted[choice], options) for choice in CHOICES}


def decode(case: Case) -> Row:
    """All of one case."""
    begin = time.monotonic()
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcomes = _outcomes(Generator(case))
        finally:
            torch._dynamo.reset()
    return Row(case.title, GENERATE, "float32", outcomes, time.monotonic() - begin)
