"""The pages, a module each, and what only one of them reads (`group_state`)."""
