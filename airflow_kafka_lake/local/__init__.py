"""A real Kafka broker and a real Airflow on this machine, for the demonstration and the tests."""
