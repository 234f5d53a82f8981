"""The machine: what it has and lacks, what is installed on it, the build of the simulator."""
