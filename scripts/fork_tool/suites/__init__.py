"""What runs the suites of tests, and what they run on."""
