"""The lanes of a group: the history that they show, owners over time, how many lanes are folded, and the component."""
