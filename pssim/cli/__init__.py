"""The command line: one file a command, which parses and prints and leaves the work to the library."""
