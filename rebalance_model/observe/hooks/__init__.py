"""What the brokers' hooks tell of a group, call by call."""
