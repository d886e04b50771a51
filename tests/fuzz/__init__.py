"""Fuzzing: real samples, mutated, for whatever receives something from outside (`streaming.base.limits`)."""
