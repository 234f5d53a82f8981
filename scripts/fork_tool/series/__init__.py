"""The series: its patches and overlay, applied to the base as commits and taken back from there."""
