"""The features of this package. To take one out, delete its folder and its lines here: no other module knows it."""

from __future__ import annotations

from airflow_kafka_lake.features.cutover.feature import CUTOVER
from airflow_kafka_lake.features.decoding.feature import DECODING
from airflow_kafka_lake.features.deep_audit.feature import DEEP_AUDIT
from airflow_kafka_lake.features.group_sync.feature import GROUP_SYNC
from airflow_kafka_lake.features.pages.feature import PAGES
from airflow_kafka_lake.ports import Features

FEATURES = Features((DECODING, DEEP_AUDIT, CUTOVER, GROUP_SYNC, PAGES))
