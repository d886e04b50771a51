"""What brokers and clients answer when they are asked."""
