"""Shows on a Mac that the patched MPS backend captures and replays: ``python -m torch.mps.check``."""
