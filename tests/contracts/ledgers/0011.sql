INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '6024804e8c858cbe2b3672c101514cb8');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd775ca6ca933a4e1', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 13:57:22.889000'),
('orders', 2, '917086a051758473', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 13:57:28.561000'),
('clicks', 1, '82a42f0b269d6397', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 2, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "clicks", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": "clicks-group", "table": "raw.clicks", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 13:57:28.967000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '44d07260-1900-4c25-8e8e-05cd6860671d'),
('clicks', 'raw.clicks', '93936b0f-3d5c-497f-8488-ad43652eaca1');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 13:57:21.156627'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 13:57:21.156627'),
(3, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 6, 7, 6, 0, '2026-01-02 13:57:28.909572'),
(4, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 5, 7, 5, 0, '2026-01-02 13:57:28.909572'),
(5, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, 0, 3, 4, 3, 0, '2026-01-02 13:57:30.909572'),
(6, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 3, 0, 3, 4, 3, 0, '2026-01-02 13:57:30.909572');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 13:57:21.156627', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 13:57:28.909572', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 4, '2026-01-02 13:57:28.909572', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL),
(3, 3, 0, 2, 5, 1, NULL),
(4, 4, 0, 2, 4, 1, NULL),
(5, 3, 5, 4, NULL, 0, NULL),
(6, 4, 4, 4, NULL, 0, NULL),
(7, 5, 0, 4, NULL, 0, NULL),
(8, 6, 0, 4, NULL, 0, NULL);

INSERT INTO kafka_lake_segment_parent (segment, parent) VALUES
(5, 3),
(6, 4),
(7, 3),
(8, 4);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail, dag) VALUES
(1, '827741b651f7', 'orders', 1, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:23.094000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}', NULL),
(2, '4d35a46f883b', 'orders', 1, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:24.210000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 2.0}', NULL),
(3, 'ab312e585cfe', 'orders', 1, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:24.995000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.2}', NULL),
(4, 'e8f50b311997', 'orders', 1, '2026-01-02 13:57:25.641000', '2026-01-02 13:57:25.641000', 'worker-5', '{}', NULL),
(5, '1df9bdb36f37', 'orders', 1, '2026-01-02 13:57:26.252000', '2026-01-02 13:57:26.252000', 'worker-7', '{}', NULL),
(6, 'd242989d7fd7', 'orders', 1, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:26.653000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.9}', NULL),
(7, 'p1', 'orders', 1, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:27.967000', 'worker-10', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.9}', NULL),
(8, 'p2', 'orders', 1, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:28.268000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.9}', NULL),
(9, 'p3', 'orders', 2, '2026-01-02 13:57:21.156627', '2026-01-02 13:57:28.716000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.9}', NULL),
(10, '9e7e157a26e7', 'clicks', 1, '2026-01-02 13:57:28.909572', '2026-01-02 13:57:29.028000', 'worker-1', '{"blocked": [], "estimated_records": 5, "estimated_bytes": 80, "estimated_seconds": 12.0}', NULL),
(11, '039ecc61770d', 'clicks', 1, '2026-01-02 13:57:28.909572', '2026-01-02 13:57:29.883000', 'worker-2', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 2.0}', NULL),
(12, 'e9a8a0adc86a', 'clicks', 1, '2026-01-02 13:57:30.909572', '2026-01-02 13:57:32.566000', 'worker-3', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.2}', NULL),
(13, '48112ba4c9b3', 'clicks', 1, '2026-01-02 13:57:30.909572', '2026-01-02 13:57:33.343000', 'worker-4', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.9}', NULL);

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('827741b651f7', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('827741b651f7', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('4d35a46f883b', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('ab312e585cfe', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('e8f50b311997', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('1df9bdb36f37', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('d242989d7fd7', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9),
('9e7e157a26e7', 3, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from a new stream, from earliest to latest', 10),
('9e7e157a26e7', 4, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 10),
('039ecc61770d', 3, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 11),
('039ecc61770d', 4, 0, 0, 4, 4, NULL, 'none', 0, 4, 'what is missing from its origin to latest', 11),
('e9a8a0adc86a', 5, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('e9a8a0adc86a', 6, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('48112ba4c9b3', 3, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest', 13),
('48112ba4c9b3', 4, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 13),
('48112ba4c9b3', 5, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13),
('48112ba4c9b3', 6, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, lease_holder, lease_until, snapshot_id, committed_at) VALUES
('827741b651f7-w0', '827741b651f7', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 13:57:23.812000'),
('4d35a46f883b-w0', '4d35a46f883b', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 13:57:24.469000'),
('ab312e585cfe-w0', 'ab312e585cfe', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 13:57:25.434000'),
('e8f50b311997-w0', 'e8f50b311997', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 13:57:26.105000'),
('1df9bdb36f37-w0', '1df9bdb36f37', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('d242989d7fd7-w0', 'd242989d7fd7', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '3d565dcc135d3dbc', 'alpha/12/1.00', '2026-01-02 13:59:28.365000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL),
('9e7e157a26e7-w0', '9e7e157a26e7', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 19, '2026-01-02 13:57:29.413000'),
('039ecc61770d-w0', '039ecc61770d', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 21, '2026-01-02 13:57:30.284000'),
('e9a8a0adc86a-w0', 'e9a8a0adc86a', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 23, '2026-01-02 13:57:32.974000'),
('48112ba4c9b3-w0', '48112ba4c9b3', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 25, '2026-01-02 13:57:33.726000');

INSERT INTO kafka_lake_attempt (wave, fence, attempt, lease_holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at, step, rows_done, rows_expected, bytes_done, bytes_expected, step_at, progress_at) VALUES
('827741b651f7-w0', 1, 'aa33b020f833529e', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 13:57:23.511000', '2026-01-02 13:57:23.812000', 'publish', 12, 12, 0, NULL, '2026-01-02 13:57:23.711000', '2026-01-02 13:57:23.812000'),
('4d35a46f883b-w0', 1, '69ec2a3920d13ac1', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 13:57:24.308000', '2026-01-02 13:57:24.469000', 'publish', 0, 0, 0, NULL, '2026-01-02 13:57:24.424000', '2026-01-02 13:57:24.469000'),
('ab312e585cfe-w0', 1, '85347fc7dc539b07', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 13:57:25.178000', '2026-01-02 13:57:25.434000', 'publish', 2, 2, 0, NULL, '2026-01-02 13:57:25.357000', '2026-01-02 13:57:25.434000'),
('e8f50b311997-w0', 1, '8ef618e422b5a154', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 13:57:25.641000', '2026-01-02 13:57:25.641000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('e8f50b311997-w0', 2, '77b898d1689852ca', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 13:57:25.896000', '2026-01-02 13:57:26.105000', 'publish', 3, 3, 0, NULL, '2026-01-02 13:57:26.047000', '2026-01-02 13:57:26.105000'),
('1df9bdb36f37-w0', 1, '31f72d4f7511f064', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 13:57:26.252000', '2026-01-02 13:57:26.252000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('1df9bdb36f37-w0', 2, '9ae9ac0dc586f71f', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)', '2026-01-02 13:57:26.761000', '2026-01-02 13:57:27.255000', 'audit', 1, 2, 0, NULL, '2026-01-02 13:57:27.222000', '2026-01-02 13:57:27.222000'),
('1df9bdb36f37-w0', 3, '50f11d7aa65975e5', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 13:57:27.294000', '2026-01-02 13:57:27.323000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('d242989d7fd7-w0', 1, '15dadf06f24959ea', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)', '2026-01-02 13:57:27.411000', '2026-01-02 13:57:27.540000', 'audit', 2, 3, 0, NULL, '2026-01-02 13:57:27.522000', '2026-01-02 13:57:27.522000'),
('d242989d7fd7-w0', 2, '122a72a70768f151', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 13:57:27.586000', '2026-01-02 13:57:27.635000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 1, '3d565dcc135d3dbc', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 13:57:28.365000', NULL, 'read', 0, 2, 0, 32, '2026-01-02 13:57:28.469000', '2026-01-02 13:57:28.469000'),
('9e7e157a26e7-w0', 1, '044c7d31b80cadb1', 'alpha/1/1.00', 'memory-1', 17, 18, 385, 'committed', NULL, '2026-01-02 13:57:29.211000', '2026-01-02 13:57:29.413000', 'publish', 5, 5, 0, NULL, '2026-01-02 13:57:29.346000', '2026-01-02 13:57:29.413000'),
('039ecc61770d-w0', 1, '16eae10e39cb199d', 'alpha/2/1.00', 'memory-2', 19, 20, 308, 'committed', NULL, '2026-01-02 13:57:30.035000', '2026-01-02 13:57:30.284000', 'publish', 4, 4, 0, NULL, '2026-01-02 13:57:30.203000', '2026-01-02 13:57:30.284000'),
('e9a8a0adc86a-w0', 1, '9a9faaebf73e54d1', 'alpha/3/1.00', 'memory-3', 21, 22, 312, 'committed', NULL, '2026-01-02 13:57:32.765000', '2026-01-02 13:57:32.974000', 'publish', 4, 4, 0, NULL, '2026-01-02 13:57:32.885000', '2026-01-02 13:57:32.974000'),
('48112ba4c9b3-w0', 1, 'afbce307ac6f1764', 'alpha/4/1.00', 'memory-4', 23, 24, 312, 'committed', NULL, '2026-01-02 13:57:33.441000', '2026-01-02 13:57:33.726000', 'publish', 4, 4, 0, NULL, '2026-01-02 13:57:33.617000', '2026-01-02 13:57:33.726000');

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('5580efbbcb51', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 13:57:24.665000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('827741b651f7-w0r0', 1, 'e8f50b311997', 'e8f50b311997-w0', NULL, 0, 3, 1, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('827741b651f7-w0r1', 2, '827741b651f7', '827741b651f7-w0', NULL, 0, 6, 0, 'COMMITTED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('4d35a46f883b-w0r0', 1, '4d35a46f883b', '4d35a46f883b-w0', NULL, 6, 9, 0, 'COMMITTED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('5580efbbcb51.9', 1, NULL, NULL, '5580efbbcb51', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('ab312e585cfe-w0r0', 1, '1df9bdb36f37', '1df9bdb36f37-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('827741b651f7-w0r0.3', 1, '827741b651f7', '827741b651f7-w0', NULL, 3, 6, 0, 'COMMITTED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('d242989d7fd7-w0r0', 2, 'd242989d7fd7', 'd242989d7fd7-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('9e7e157a26e7-w0r0', 3, '9e7e157a26e7', '9e7e157a26e7-w0', NULL, 0, 3, 0, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('9e7e157a26e7-w0r1', 4, '9e7e157a26e7', '9e7e157a26e7-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('039ecc61770d-w0r0', 3, '039ecc61770d', '039ecc61770d-w0', NULL, 3, 5, 0, 'COMMITTED', NULL, 32, 2, 3, 4, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('039ecc61770d-w0r1', 4, '039ecc61770d', '039ecc61770d-w0', NULL, 2, 4, 0, 'COMMITTED', NULL, 32, 2, 2, 3, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('e9a8a0adc86a-w0r0', 5, 'e9a8a0adc86a', 'e9a8a0adc86a-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('e9a8a0adc86a-w0r1', 6, 'e9a8a0adc86a', 'e9a8a0adc86a-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('48112ba4c9b3-w0r0', 3, '48112ba4c9b3', '48112ba4c9b3-w0', NULL, 5, 6, 0, 'COMMITTED', NULL, 16, 1, 5, 5, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('48112ba4c9b3-w0r1', 4, '48112ba4c9b3', '48112ba4c9b3-w0', NULL, 4, 5, 0, 'COMMITTED', NULL, 16, 1, 4, 4, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('48112ba4c9b3-w0r2', 5, '48112ba4c9b3', '48112ba4c9b3-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('48112ba4c9b3-w0r3', 6, '48112ba4c9b3', '48112ba4c9b3-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 13:57:23.945000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 13:57:23.945000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 13:57:24.541000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 13:57:25.507000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 13:57:26.146000', 0, 12, 8),
(6, 'clicks', 3, '2026-01-02 13:57:29.530000', 0, 3, 3),
(7, 'clicks', 4, '2026-01-02 13:57:29.530000', 0, 2, 2),
(8, 'clicks', 3, '2026-01-02 13:57:30.360000', 3, 5, 2),
(9, 'clicks', 4, '2026-01-02 13:57:30.360000', 2, 4, 2),
(10, 'clicks', 5, '2026-01-02 13:57:33.017000', 0, 2, 2),
(11, 'clicks', 6, '2026-01-02 13:57:33.017000', 0, 2, 2),
(12, 'clicks', 3, '2026-01-02 13:57:33.851000', 5, 6, 1),
(13, 'clicks', 4, '2026-01-02 13:57:33.851000', 4, 5, 1),
(14, 'clicks', 5, '2026-01-02 13:57:33.851000', 2, 3, 1),
(15, 'clicks', 6, '2026-01-02 13:57:33.851000', 2, 3, 1);

INSERT INTO kafka_lake_notified (pipeline, sequence, through, lease_holder, lease_until) VALUES
('orders', 4, NULL, NULL, NULL);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 13:57:22.903000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 13:57:22.962000', 'orders', 'ledger', 'table', 'raw.orders', '44d07260-1900-4c25-8e8e-05cd6860671d'),
(3, '2026-01-02 13:57:23.264000', 'orders', 'worker-1', 'plan', '827741b651f7', '2 streams, 1 wave, 2 ranges, 12 offsets'),
(4, '2026-01-02 13:57:23.569000', 'orders', 'alpha/1/1.00', 'claim', '827741b651f7-w0', 'attempt aa33b020f833529e, fence 1'),
(5, '2026-01-02 13:57:23.732000', 'orders', 'aa33b020f833529e', 'stage', '827741b651f7-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 13:57:23.767000', 'orders', 'aa33b020f833529e', 'publish', '827741b651f7-w0', 'attempt aa33b020f833529e'),
(7, '2026-01-02 13:57:23.866000', 'orders', 'aa33b020f833529e', 'commit', '827741b651f7-w0', 'attempt aa33b020f833529e: 2 ranges, 12 rows'),
(8, '2026-01-02 13:57:23.946000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 13:57:24.268000', 'orders', 'worker-2', 'plan', '4d35a46f883b', '2 streams, 1 wave, 1 range, 3 offsets'),
(10, '2026-01-02 13:57:24.323000', 'orders', 'alpha/2/1.00', 'claim', '4d35a46f883b-w0', 'attempt 69ec2a3920d13ac1, fence 1'),
(11, '2026-01-02 13:57:24.425000', 'orders', '69ec2a3920d13ac1', 'stage', '4d35a46f883b-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 13:57:24.458000', 'orders', '69ec2a3920d13ac1', 'publish', '4d35a46f883b-w0', 'attempt 69ec2a3920d13ac1'),
(13, '2026-01-02 13:57:24.494000', 'orders', '69ec2a3920d13ac1', 'commit', '4d35a46f883b-w0', 'attempt 69ec2a3920d13ac1: 1 range, 0 rows'),
(14, '2026-01-02 13:57:24.579000', 'orders', 'ledger', 'advance', 'orders', '1 watermark, 3 offsets, 0 rows'),
(15, '2026-01-02 13:57:24.723000', 'orders', 'worker-3', 'skip', '5580efbbcb51', 'orders/0 9-10, 1 offset: poison'),
(16, '2026-01-02 13:57:25.105000', 'orders', 'worker-4', 'plan', 'ab312e585cfe', '2 streams, 1 wave, 1 range, 2 offsets'),
(17, '2026-01-02 13:57:25.208000', 'orders', 'alpha/4/1.00', 'claim', 'ab312e585cfe-w0', 'attempt 85347fc7dc539b07, fence 1'),
(18, '2026-01-02 13:57:25.371000', 'orders', '85347fc7dc539b07', 'stage', 'ab312e585cfe-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 13:57:25.422000', 'orders', '85347fc7dc539b07', 'publish', 'ab312e585cfe-w0', 'attempt 85347fc7dc539b07'),
(20, '2026-01-02 13:57:25.452000', 'orders', '85347fc7dc539b07', 'commit', 'ab312e585cfe-w0', 'attempt 85347fc7dc539b07: 1 range, 2 rows'),
(21, '2026-01-02 13:57:25.507000', 'orders', 'ledger', 'advance', 'orders', '1 watermark, 3 offsets, 2 rows'),
(22, '2026-01-02 13:57:25.701000', 'orders', 'worker-5', 'reopen', 'e8f50b311997', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 13:57:25.908000', 'orders', 'alpha/6/1.00', 'claim', 'e8f50b311997-w0', 'attempt 77b898d1689852ca, fence 2'),
(24, '2026-01-02 13:57:26.054000', 'orders', '77b898d1689852ca', 'stage', 'e8f50b311997-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 13:57:26.088000', 'orders', '77b898d1689852ca', 'publish', 'e8f50b311997-w0', 'attempt 77b898d1689852ca'),
(26, '2026-01-02 13:57:26.108000', 'orders', '77b898d1689852ca', 'commit', 'e8f50b311997-w0', 'attempt 77b898d1689852ca: 1 range, 3 rows'),
(27, '2026-01-02 13:57:26.146000', 'orders', 'ledger', 'advance', 'orders', '1 watermark, 12 offsets, 8 rows'),
(28, '2026-01-02 13:57:26.294000', 'orders', 'worker-7', 'reopen', '1df9bdb36f37', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 13:57:26.700000', 'orders', 'worker-8', 'plan', 'd242989d7fd7', '2 streams, 1 wave, 1 range, 3 offsets'),
(30, '2026-01-02 13:57:26.806000', 'orders', 'alpha/8/1.00', 'claim', '1df9bdb36f37-w0', 'attempt 9ae9ac0dc586f71f, fence 2'),
(31, '2026-01-02 13:57:27.278000', 'orders', '9ae9ac0dc586f71f', 'end', '1df9bdb36f37-w0', 'failed: UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 13:57:27.300000', 'orders', 'alpha/8/1.00', 'claim', '1df9bdb36f37-w0', 'attempt 50f11d7aa65975e5, fence 3'),
(33, '2026-01-02 13:57:27.355000', 'orders', 'worker-8', 'revoke', '1df9bdb36f37-w0', 'ab312e585cfe-w0r0 HELD: UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 13:57:27.439000', 'orders', 'alpha/8/1.00', 'claim', 'd242989d7fd7-w0', 'attempt 15dadf06f24959ea, fence 1'),
(35, '2026-01-02 13:57:27.553000', 'orders', '15dadf06f24959ea', 'end', 'd242989d7fd7-w0', 'failed: UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 13:57:27.604000', 'orders', 'alpha/8/1.00', 'claim', 'd242989d7fd7-w0', 'attempt 122a72a70768f151, fence 2'),
(37, '2026-01-02 13:57:27.670000', 'orders', 'worker-8', 'revoke', 'd242989d7fd7-w0', 'd242989d7fd7-w0r0 HELD: UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 13:57:28.032000', 'orders', 'worker-10', 'plan', 'p1', '2 streams, 1 wave, 1 range, 2 offsets'),
(39, '2026-01-02 13:57:28.112000', 'orders', 'worker-9', 'revoke', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 13:57:28.308000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 wave, 1 range, 2 offsets'),
(41, '2026-01-02 13:57:28.369000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt 3d565dcc135d3dbc, fence 1'),
(42, '2026-01-02 13:57:28.562000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 13:57:28.828000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 wave, 2 ranges, 4 offsets'),
(44, '2026-01-02 13:57:28.968000', 'clicks', 'ledger', 'pipeline', 'clicks', 'version 1'),
(45, '2026-01-02 13:57:29.002000', 'clicks', 'ledger', 'table', 'raw.clicks', '93936b0f-3d5c-497f-8488-ad43652eaca1'),
(46, '2026-01-02 13:57:29.108000', 'clicks', 'worker-1', 'plan', '9e7e157a26e7', '2 streams, 1 wave, 2 ranges, 5 offsets'),
(47, '2026-01-02 13:57:29.226000', 'clicks', 'alpha/1/1.00', 'claim', '9e7e157a26e7-w0', 'attempt 044c7d31b80cadb1, fence 1'),
(48, '2026-01-02 13:57:29.368000', 'clicks', '044c7d31b80cadb1', 'stage', '9e7e157a26e7-w0', 'snapshot 18, 385 bytes'),
(49, '2026-01-02 13:57:29.404000', 'clicks', '044c7d31b80cadb1', 'publish', '9e7e157a26e7-w0', 'attempt 044c7d31b80cadb1'),
(50, '2026-01-02 13:57:29.476000', 'clicks', '044c7d31b80cadb1', 'commit', '9e7e157a26e7-w0', 'attempt 044c7d31b80cadb1: 2 ranges, 5 rows'),
(51, '2026-01-02 13:57:29.531000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 5 offsets, 5 rows'),
(52, '2026-01-02 13:57:29.964000', 'clicks', 'worker-2', 'plan', '039ecc61770d', '2 streams, 1 wave, 2 ranges, 4 offsets'),
(53, '2026-01-02 13:57:30.078000', 'clicks', 'alpha/2/1.00', 'claim', '039ecc61770d-w0', 'attempt 16eae10e39cb199d, fence 1'),
(54, '2026-01-02 13:57:30.223000', 'clicks', '16eae10e39cb199d', 'stage', '039ecc61770d-w0', 'snapshot 20, 308 bytes'),
(55, '2026-01-02 13:57:30.260000', 'clicks', '16eae10e39cb199d', 'publish', '039ecc61770d-w0', 'attempt 16eae10e39cb199d'),
(56, '2026-01-02 13:57:30.308000', 'clicks', '16eae10e39cb199d', 'commit', '039ecc61770d-w0', 'attempt 16eae10e39cb199d: 2 ranges, 4 rows'),
(57, '2026-01-02 13:57:30.360000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(58, '2026-01-02 13:57:32.656000', 'clicks', 'worker-3', 'plan', 'e9a8a0adc86a', '4 streams, 1 wave, 2 ranges, 4 offsets'),
(59, '2026-01-02 13:57:32.782000', 'clicks', 'alpha/3/1.00', 'claim', 'e9a8a0adc86a-w0', 'attempt 9a9faaebf73e54d1, fence 1'),
(60, '2026-01-02 13:57:32.900000', 'clicks', '9a9faaebf73e54d1', 'stage', 'e9a8a0adc86a-w0', 'snapshot 22, 312 bytes'),
(61, '2026-01-02 13:57:32.944000', 'clicks', '9a9faaebf73e54d1', 'publish', 'e9a8a0adc86a-w0', 'attempt 9a9faaebf73e54d1'),
(62, '2026-01-02 13:57:32.984000', 'clicks', '9a9faaebf73e54d1', 'commit', 'e9a8a0adc86a-w0', 'attempt 9a9faaebf73e54d1: 2 ranges, 4 rows'),
(63, '2026-01-02 13:57:33.023000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(64, '2026-01-02 13:57:33.398000', 'clicks', 'worker-4', 'plan', '48112ba4c9b3', '4 streams, 1 wave, 4 ranges, 4 offsets'),
(65, '2026-01-02 13:57:33.486000', 'clicks', 'alpha/4/1.00', 'claim', '48112ba4c9b3-w0', 'attempt afbce307ac6f1764, fence 1'),
(66, '2026-01-02 13:57:33.631000', 'clicks', 'afbce307ac6f1764', 'stage', '48112ba4c9b3-w0', 'snapshot 24, 312 bytes'),
(67, '2026-01-02 13:57:33.710000', 'clicks', 'afbce307ac6f1764', 'publish', '48112ba4c9b3-w0', 'attempt afbce307ac6f1764'),
(68, '2026-01-02 13:57:33.762000', 'clicks', 'afbce307ac6f1764', 'commit', '48112ba4c9b3-w0', 'attempt afbce307ac6f1764: 4 ranges, 4 rows'),
(69, '2026-01-02 13:57:33.852000', 'clicks', 'ledger', 'advance', 'clicks', '4 watermarks, 4 offsets, 4 rows');

INSERT INTO kafka_lake_outbox (id, pipeline, table_name, kind, wave, attempt, fence, stream, start_offset, end_offset, generation, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, recorded_at, offsets) VALUES
(22, 'clicks', 'raw.clicks', 'published', '48112ba4c9b3-w0', 'afbce307ac6f1764', 1, 3, 5, 6, 0, 1, 5, 5, 1, 0, 0, 0, 0, 0, '2026-01-02 13:57:33.726000', NULL),
(23, 'clicks', 'raw.clicks', 'published', '48112ba4c9b3-w0', 'afbce307ac6f1764', 1, 4, 4, 5, 0, 1, 4, 4, 1, 0, 0, 0, 0, 0, '2026-01-02 13:57:33.726000', NULL),
(24, 'clicks', 'raw.clicks', 'published', '48112ba4c9b3-w0', 'afbce307ac6f1764', 1, 5, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 13:57:33.726000', NULL),
(25, 'clicks', 'raw.clicks', 'published', '48112ba4c9b3-w0', 'afbce307ac6f1764', 1, 6, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 13:57:33.726000', NULL);
