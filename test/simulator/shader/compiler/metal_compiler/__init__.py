"""Compiles Metal Shading Language source into a shared library for the CPU."""
