"""Schemas, evolutions and values drawn at random, and what independent libraries say that they mean."""
