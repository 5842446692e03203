"""The pinned jars of Spark and of the local servers."""

from airflow_kafka_lake.adapters.jars.cache import (
    CACHE_VARIABLE,
    JOBS,
    STORES,
    Jar,
    JarChecksumError,
    JarSet,
    JarsMissingError,
    default_cache,
    fetch,
    files,
    jars_folder,
    pinned,
    spark_version,
    verified,
)

__all__ = [
    "CACHE_VARIABLE",
    "JOBS",
    "STORES",
    "Jar",
    "JarChecksumError",
    "JarSet",
    "JarsMissingError",
    "default_cache",
    "fetch",
    "files",
    "jars_folder",
    "pinned",
    "spark_version",
    "verified",
]
