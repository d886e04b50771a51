"""The command line: a file a command, or a group of them."""
