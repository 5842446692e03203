"""From Airflow connections to adapters; importing this package imports nothing of Airflow, so the CLI starts fast."""
