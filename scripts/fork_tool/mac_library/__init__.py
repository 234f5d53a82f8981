"""`make wheel`: the wheel for a Mac, made from the official one and a library that is compiled for macOS anywhere."""
