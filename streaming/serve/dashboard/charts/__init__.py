"""Pictures of quantities over time: lag and waiting time of topics, one queue, a group's health."""
