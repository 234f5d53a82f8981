"""The PyTorch that the series stands on: its pin, its source, its checkout."""
