"""The models that the demo and the tests capture."""
