"""What every part stands on: errors, output, files, git and processes."""
