"""Segments and layouts: what must be finished before what."""
