"""Decoding by replays writes the tokens that eager writes, greedy and sampled, 200 of each (promises 19 and 20)."""

from functools import lru_cache

import pytest
import torch
from models.language_models import Gpt2, LanguageModel, Llama

TOKENS = 200


def decode(
    kind: type[LanguageModel], temperature: float, captured: bool, link: bool = False
) -> tuple[list[int], torch.Tensor]:
    torch.manual_seed(0)
    model = kind(temperature=temperature).to("mps").eval()  # type: ignore[call-arg]
    graph = torch.mps.MPSGraph(link=link)
    tokens = torch.zeros(TOKENS, dtype=torch.long, device="mps")
    with torch.no_grad():
        for i in range(TOKENS):
            if not captured or i == 0:
                model()
            elif i == 1:
                with torch.mps.graph(graph):
                    model()
            else:
                graph.replay()
            tokens[i : i + 1].copy_(model.token)
    return tokens.tolist(), torch.mps.get_rng_state()


# The linked run is compared with the same one.
@lru_cache(maxsize=1)
def decoded_eagerly(kind: type[LanguageModel], temperature: float) -> tuple[list[int], torch.Tensor]:
    return decode(kind, temperature, captured=False)


@pytest.mark.parametrize("link", [False, True], ids=["", "linked"])
@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", [Gpt2, Llama])
def test_decode(kind: type[LanguageModel], temperature: float, link: bool) -> None:
    """19, 20, 26: with the graph runs linked, too."""
    eager, state = decoded_eagerly(kind, temperature)
    replayed, left = decode(kind, temperature, captured=True, link=link)
    assert replayed == eager
    assert torch.equal(left, state)
    assert len(set(eager)) > 3 or temperature == 0.0
