"""Commit the watermarks to a Kafka group, for tools that look at groups."""
