"""The `rods` commands, one file each: thin, and heavy imports wait until a command runs."""
