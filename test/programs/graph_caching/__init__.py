"""What the executable cache counts by operation and parameters."""
