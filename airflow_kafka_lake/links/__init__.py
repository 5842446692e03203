"""Airflow's links of a task: to the page of its pipeline, its Spark application, the snapshot of its table."""
