"""Airflow's operators: each builds the ports, calls one service and returns ids and small numbers."""
