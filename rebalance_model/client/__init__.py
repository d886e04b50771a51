"""The client's side of rebalance."""
