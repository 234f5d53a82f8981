"""The buffers that a sequence of encoder calls works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from encoder_driver import driver

# Buffer numbers as the calls name them.
INPUTS = (0, 1, 2)
SCRATCH = (3, 4)
JOURNAL = 5
INDIRECT = 6

BYTES = 512
# Offsets and lengths of buffer contents are multiples of this.
GRAIN = 32
JOURNAL_REGIONS = 4
JOURNAL_REGION_BYTES = 1024
INDIRECT_ENTRIES = 8


class EncoderWorld:
    """Tensors of the MPS device whose memory the encoder calls bind."""

    def __init__(self) -> None:
        self.tensors = [torch.empty(BYTES, dtype=torch.uint8, device="mps") for _ in (*INPUTS, *SCRATCH)]
        self.tensors.append(torch.empty(JOURNAL_REGIONS * JOURNAL_REGION_BYTES, dtype=torch.uint8, device="mps"))
        self.tensors.append(torch.empty(INDIRECT_ENTRIES * 12, dtype=torch.uint8, device="mps"))

    @property
    def buffers(self) -> list[int]:
        """The MTLBuffers by buffer number."""
        return [tensor.untyped_storage().data_ptr() for tensor in self.tensors]

    def run(self, calls: Iterable[Sequence[int]]) -> None:
        """Makes encoder calls on these buffers."""
        driver().run(calls, self.buffers)

    def load(self, seed: int) -> None:
        """Gives all buffers contents that depend on the seed; empties the journal."""
        random = np.random.default_rng(seed)
        for number in (*INPUTS, *SCRATCH):
            data = random.integers(0, 256, BYTES, dtype=np.uint8)
            # what the kernels would take for the mark of bytes with a length
            data[3::GRAIN] = 0
            self.tensors[number].copy_(torch.from_numpy(data))
        self.tensors[JOURNAL].zero_()
        groups = random.integers(1, 4, INDIRECT_ENTRIES * 3, dtype=np.uint32)
        self.tensors[INDIRECT].copy_(torch.from_numpy(groups.view(np.uint8)))

    def read(self) -> list[np.ndarray[tuple[int], np.dtype[np.uint8]]]:
        """Waits for the device and returns all contents."""
        return [tensor.cpu().numpy() for tensor in self.tensors]

    def dispatches(self) -> int:
        """Returns how many dispatches the journal tells of."""
        return journal_length(self.tensors[JOURNAL])


def journal_length(journal: torch.Tensor) -> int:
    """Returns how many dispatches a journal tells of."""
    words = journal.cpu().numpy().view(np.uint32)
    return int(words[:: JOURNAL_REGION_BYTES // 4].sum())
