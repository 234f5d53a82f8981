"""The benchmark: 100 configurations, eager and replayed."""
