"""The deep audit: Kafka is read again, and its records are compared with the rows, byte for byte."""
