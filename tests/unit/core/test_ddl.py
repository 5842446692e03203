"""The DDL of a pipeline file is read before any job: what a table cannot have is refused with the column."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from airflow_kafka_lake.core.ddl import DdlError, columns

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a INT", "struct<a:int>"),
        ("a: integer, b  BIGINT NOT NULL COMMENT 'it''s'", "struct<a:int,b:bigint>"),
        ("amount DECIMAL(10,2), n numeric(5), d dec", "struct<amount:decimal(10,2),n:decimal(5,0),d:decimal(10,0)>"),
        ("p STRUCT<`zip-code`: STRING, x: ARRAY<STRUCT<y: MAP<STRING, DOUBLE>>>>", None),
        ("t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, b BINARY, f REAL, s SHORT, y BYTE, o BOOLEAN", None),
        ("a\n  INT,\n  größe STRING", "struct<a:int,größe:string>"),
    ],
)
def test_columns_are_read(text: str, found: str | None) -> None:
    """As Spark's own form of a schema."""
    seen = StructType.fromJson(columns(text)).simpleString()
    assert seen == found or found is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a VARCHAR(5)", "a is VARCHAR(5), which no table of the lake has: use STRING"),
        ("p STRUCT<x: CHAR(3)>", "p.x is CHAR(3), which no table of the lake has: use STRING"),
        ("a INTERVAL", "a is INTERVAL, which no table of the lake has: use BOOLEAN"),
        ("a VARIANT", "a is VARIANT, which no table"),
        ("a DECIMAL(39,2)", "a is a decimal of (39, 2): it has 1 to 38 digits"),
        ("a DECIMAL(2,3)", "a is a decimal of (2, 3)"),
        ("m MAP<INT, STRING>", "m is a MAP with keys of type integer: in JSON every key is a STRING"),
        ("s STRUCT<>", "'>' is no name"),
        ("a INT, A STRING", "A stands twice"),
        ("zip-code INT", "behind zip stands '-' where its type should be; a name"),
        ("`a.b` INT", "a.b has the character '.'"),
        ("a INT b INT", "'b' is not understood after 'a INT'"),
        ("a", "the type of a is missing at the end"),
        ("a STRUCT<x INT", "the type of a needs '>' where the end stands"),
        ("a INT,", "a name is missing at the end"),
        ("a " + "ARRAY<" * 70 + "INT" + ">" * 70, "types deep"),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    """The column, what is wrong and what to write instead."""
    with pytest.raises(DdlError) as refused:
        columns(text)
    assert problem in str(refused.value)
