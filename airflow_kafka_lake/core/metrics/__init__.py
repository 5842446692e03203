"""Which metrics there are, and which of them a fact gives. Sending them is Airflow's business."""
