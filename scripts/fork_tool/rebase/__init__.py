"""The series on another base: what would become of each entry, and the move itself."""
