"""Write data files that no snapshot shows yet."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table


def data_files(table: Table, rows: pa.Table) -> Sequence[DataFile]:
    """Write rows as data files of the table's present partitioning; no file for no rows."""
    if not rows.num_rows:
        return ()
    files = tuple(_dataframe_to_data_files(table.metadata, rows, table.io))
    for file in files:
        file.spec_id = table.spec().spec_id
    return files
