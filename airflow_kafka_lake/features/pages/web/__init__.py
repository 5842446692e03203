"""The pages in Airflow's API server: what is in the ledgers, and the decisions that people may make about it."""
