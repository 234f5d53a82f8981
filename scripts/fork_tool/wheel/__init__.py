"""torch's wheel compiled from source on a Mac, its checks, and the release's notes."""
