"""The series: its entries and overlay, laid on the base as commits and taken back from there."""
