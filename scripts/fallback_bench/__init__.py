"""Measures what it costs that an operator of PyTorch has no MPS kernel and falls back to the CPU."""
