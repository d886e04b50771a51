"""Popped messages: what clients and brokers send each other about them, a queue's block in order, and the truth."""
