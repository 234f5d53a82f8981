"""The suite "releases": what can be known of the series on another release from that release's wheels."""
