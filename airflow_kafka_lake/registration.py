"""The features of this package. To take one out, delete its folder and its lines here: no other module knows it."""

from __future__ import annotations

from airflow_kafka_lake.features.group_sync.feature import GROUP_SYNC
from airflow_kafka_lake.features.pages.feature import PAGES
from airflow_kafka_lake.ports.feature import Features

FEATURES = Features((GROUP_SYNC, PAGES))
