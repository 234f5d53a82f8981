"""Sentence encoders, and encoders and decoders of speech."""

import torch
import torch.nn.functional as F
from models.layers import Added, new_caches, Stack, SWAPPED
from torch import nn, Tensor

from benchmark.case import Case, inference, new_input
from benchmark.families.language import LanguageModel

WORDS = 30522


class SentenceEncoder(nn.Module):
    """BERT-style. Maps (batch, tokens) int64 to normalized embeddings (batch, width)."""

    slots: Tensor

    def __init__(self, width: int, layers: int, heads: int, words: int, tokens: int) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.norm = nn.LayerNorm(width)
        self.stack = Stack(layers, 0, width=width, heads=heads, hidden=4 * width, style="bert")
        self.register_buffer("slots", torch.arange(tokens))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embedding(tokens) + self.positions(self.slots))
        return F.normalize(self.stack(x).mean(1), dim=-1)


def build_sentence(device: str, *, width: int, layers: int, heads: int, tokens: int, batch: int = 1) -> Case:
    model = SentenceEncoder(width, layers, heads, WORDS, tokens)
    return inference(model, device, new_input((batch, tokens), device, below=WORDS))


class SpectrogramEncoder(nn.Module):
    """Whisper-style. Maps (batch, 80, frames) to (batch, frames / 2, width)."""

    positions: Tensor

    def __init__(self, width: int, layers: int, heads: int, frames: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.stack = Stack(layers, 0, width=width, heads=heads, hidden=4 * width, style="gpt")
        self.norm = nn.LayerNorm(width)
        self.register_buffer("positions", torch.randn(frames // 2, width) * 0.02)

    def forward(self, frames: Tensor) -> Tensor:
        x = F.gelu(self.second(F.gelu(self.first(frames)))).transpose(1, 2) + self.positions
        return self.norm(self.stack(x))


def build_spectrogram(device: str, *, width: int, layers: int, heads: int, frames: int = 3000) -> Case:
    return inference(SpectrogramEncoder(width, layers, heads, frames), device, new_input((1, 80, frames), device))


def build_speech_decoder(device: str, *, width: int, layers: int, heads: int, heard: int = 1500) -> Case:
    """Decodes one token, Whisper-style: with a cache of 448 positions, and attention to `heard` frames."""
    words, length = 51865, 448
    model = LanguageModel("gpt", width, layers, heads, words, length, cross_width=width).to(device).eval()
    token, position = new_input((1, 1), device, below=words), new_input((1,), device, below=length)
    sound = new_input((1, heard, width), device)
    caches, state = new_caches(layers, (1, heads, length, width // heads), device)
    inputs = [token, position, sound]
    return Case(lambda: (model.decode(token.tensor, position.tensor, caches, sound.tensor),), inputs, state)


def wave_encoder(width: int, layers: int, heads: int, channels: int) -> nn.Module:
    """wav2vec2-style. Maps (batch, 1, samples) to (batch, frames, width)."""
    parts: list[nn.Module] = []
    for kernel, stride in zip((10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)):
        parts.append(nn.Conv1d(channels if parts else 1, channels, kernel, stride, bias=False))
        parts += [nn.GELU()] if len(parts) > 1 else [nn.GroupNorm(channels, channels), nn.GELU()]
    positions = Added(SWAPPED, nn.Conv1d(width, width, 15, padding=7, groups=16), nn.GELU(), SWAPPED)
    stack = Stack(layers, 0, width=width, heads=heads, hidden=4 * width, style="bert")
    return nn.Sequential(*parts, SWAPPED, nn.LayerNorm(channels), nn.Linear(channels, width), positions, stack)


def build_wave(device: str, *, samples: int = 16000) -> Case:
    return inference(wave_encoder(768, 12, 12, 512), device, new_input((1, 1, samples), device))


def residual_waves(channels: int, kernel: int) -> nn.Module:
    """Dilated convolutions of one kernel size, each pair added to its input."""

    def pair(dilation: int) -> nn.Module:
        dilated = nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=dilation * (kernel // 2))
        plain = nn.Conv1d(channels, channels, kernel, padding=kernel // 2)
        return Added(nn.LeakyReLU(0.1), dilated, nn.LeakyReLU(0.1), plain)

    return nn.Sequential(*(pair(dilation) for dilation in (1, 3, 5)))


class Vocoder(nn.Module):
    """HiFi-GAN-style generator. Maps (batch, 80, frames) to (batch, 1, 256 · frames)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, channels, 7, padding=3)
        rates = (8, 8, 2, 2)
        self.wider = nn.ModuleList(
            nn.ConvTranspose1d(channels >> i, channels >> (i + 1), 2 * rate, rate, padding=rate // 2)
            for i, rate in enumerate(rates)
        )
        self.residual = nn.ModuleList(
            nn.ModuleList(residual_waves(channels >> (i + 1), kernel) for kernel in (3, 7, 11))
            for i in range(len(rates))
        )
        self.last = nn.Conv1d(channels >> len(rates), 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for wider, residual in zip(self.wider, self.residual):
            x = wider(F.leaky_relu(x, 0.1))
            x = sum(part(x) for part in residual) / len(residual)
        return self.last(F.leaky_relu(x)).tanh()


def build_vocoder(device: str, *, channels: int, frames: int) -> Case:
    return inference(Vocoder(channels), device, new_input((1, 80, frames), device))
