"""Image classifiers for 1×8×8 images in ten classes."""

import torch
import torch.nn.functional as F
from torch import nn, Tensor

from models.layers import Added

CLASSES = 10


class Mlp(nn.Module):
    """Two hidden layers with layer norm. Maps (batch, 1, 8, 8) to (batch, 10) logits."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Linear(width, CLASSES),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def residual_block(channels: int) -> nn.Module:
    """Two 3×3 convolutions with batch norm, added to their input."""
    first, second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
    inner = Added(first, nn.BatchNorm2d(channels), nn.ReLU(), second, nn.BatchNorm2d(channels))
    return nn.Sequential(inner, nn.ReLU())


class ResidualNet(nn.Module):
    """A ResNet-style conv net. Maps (batch, 1, 8, 8) to (batch, 10) logits."""

    def __init__(self, channels: int = 16, blocks: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(residual_block(channels) for _ in range(blocks)))
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(self.blocks(F.relu(self.stem(images))))
        return self.head(x.mean((2, 3)))


class AttentionBlock(nn.Module):
    """Pre-norm self-attention and a feed-forward layer, both added to their input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.query_key_value(self.attention_norm(x))
        parts = parts.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.feed_forward_norm(x))


class VisionTransformer(nn.Module):
    """A ViT-style classifier on 2×2 patches. Maps (batch, 1, 8, 8) to (batch, 10) logits."""

    def __init__(self, width: int = 48, depth: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.Sequential(*(AttentionBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])
