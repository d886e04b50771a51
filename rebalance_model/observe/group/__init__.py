"""Conclusions about a group, from hooks or polls: members, owners, expected owners, rebalances and their causes."""
