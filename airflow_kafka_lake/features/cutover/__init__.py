"""The cutover to a live stream: nothing missing between the two tables, nothing in both."""
