"""What runs in the Spark driver: needs `airflow_kafka_lake.core` and PySpark, nothing else of this package."""
