"""Hooks as Airflow knows them, for a Dag's own code and for the connections page; `wiring` does what they do."""
