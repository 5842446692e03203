"""The pinned jars of Spark and of the local servers."""

from airflow_kafka_lake.adapters.jars.cache import (
    CACHE_VARIABLE,
    STORES,
    Jar,
    JarChecksumError,
    JarSet,
    JarsMissingError,
    default_cache,
    fetch,
    files,
    fitting_sparks,
    jars_folder,
    pinned,
    verified,
)

__all__ = [
    "CACHE_VARIABLE",
    "STORES",
    "Jar",
    "JarChecksumError",
    "JarSet",
    "JarsMissingError",
    "default_cache",
    "fetch",
    "files",
    "fitting_sparks",
    "jars_folder",
    "pinned",
    "verified",
]
