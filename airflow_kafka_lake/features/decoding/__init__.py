"""Decoding: values become columns beside the raw bytes; what does not decode stays, and says why."""
