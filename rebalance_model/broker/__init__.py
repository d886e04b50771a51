"""The broker's side of rebalance."""
