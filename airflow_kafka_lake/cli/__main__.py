"""`python -m airflow_kafka_lake.cli`."""

from __future__ import annotations

import sys

from airflow_kafka_lake.cli import main

sys.exit(main())
