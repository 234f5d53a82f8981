"""The fork tool: keeps a series of patches and an overlay on top of one PyTorch release."""
