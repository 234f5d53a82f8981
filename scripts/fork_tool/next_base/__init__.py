"""The suite "next base": what can be known of the series on another release from that release's wheels."""
