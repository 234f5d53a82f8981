"""``torch.mps`` with what the series adds, of which the wheel's annotations know nothing."""

from __future__ import annotations

from typing import Any

import torch

mps: Any = torch.mps
