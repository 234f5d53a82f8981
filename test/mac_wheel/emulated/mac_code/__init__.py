"""Runs the code of the Mac's libraries on an emulated processor."""
