"""Airflow hooks, for a Dag's own code and the connections page; `wiring` does the work."""
