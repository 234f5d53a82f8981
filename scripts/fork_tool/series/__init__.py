"""The series: its entries and overlay, applied to the base as commits and taken back from there."""
