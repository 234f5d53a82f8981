"""The demo: real models captured on one input and replayed on others."""
