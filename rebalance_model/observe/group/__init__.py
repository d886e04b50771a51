"""What is concluded of a group, from hooks or polls: members, owners, expected owners, rebalances and their causes."""
