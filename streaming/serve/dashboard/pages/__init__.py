"""The pages, a module each, and what only one of them reads (`home_…` and `group_state`)."""
