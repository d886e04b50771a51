"""Fold the answers of brokers and clients to the poll collector."""
