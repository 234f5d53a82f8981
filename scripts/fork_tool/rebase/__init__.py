"""The series on another base: what would become of each patch, and the move itself."""
