"""Dags to use as they are: they read the pipeline files in the folder `[kafka_lake] pipelines_folder`."""
