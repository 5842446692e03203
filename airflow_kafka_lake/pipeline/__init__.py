"""The public `Pipeline`: a TOML file or keywords in, a frozen `PipelineSpec` out. Cheap to import, for Dag files."""

from airflow_kafka_lake.pipeline.definition import Pipeline, load_pipelines

__all__ = ["Pipeline", "load_pipelines"]
