"""Sensors: look once, then wait in the triggerer."""
