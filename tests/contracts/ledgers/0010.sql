INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', 'b3ac93b1cb0a625fcb9b3f873b0df0b6');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd775ca6ca933a4e1', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 08:11:53.926000'),
('orders', 2, '917086a051758473', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 08:11:55.266000'),
('clicks', 1, '82a42f0b269d6397', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 2, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "clicks", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": "clicks-group", "table": "raw.clicks", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 08:11:55.332000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '1c223044-833b-4559-babe-5e7ac2b358c2'),
('clicks', 'raw.clicks', '22dfb76d-2f01-46ab-aba0-66cbed305249');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 08:11:53.497070'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 08:11:53.497070'),
(3, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 6, 7, 6, 0, '2026-01-02 08:11:55.323191'),
(4, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 5, 7, 5, 0, '2026-01-02 08:11:55.323191'),
(5, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, 0, 3, 4, 3, 0, '2026-01-02 08:11:57.323191'),
(6, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 3, 0, 3, 4, 3, 0, '2026-01-02 08:11:57.323191');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 08:11:53.497070', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 08:11:55.323191', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 4, '2026-01-02 08:11:55.323191', 1);

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
(1, '63c597181367', 'orders', 1, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:53.976000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}', NULL),
(2, '5ca11087661a', 'orders', 1, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:54.200000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}', NULL),
(3, '36c648c4c37a', 'orders', 1, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:54.402000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.0}', NULL),
(4, 'ed0a19ea1f26', 'orders', 1, '2026-01-02 08:11:54.539000', '2026-01-02 08:11:54.539000', 'worker-5', '{}', NULL),
(5, 'fe6fe27cb410', 'orders', 1, '2026-01-02 08:11:54.716000', '2026-01-02 08:11:54.716000', 'worker-7', '{}', NULL),
(6, 'f4b2379a7858', 'orders', 1, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:54.761000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.7}', NULL),
(7, 'p1', 'orders', 1, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:54.989000', 'worker-10', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}', NULL),
(8, 'p2', 'orders', 1, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:55.200000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}', NULL),
(9, 'p3', 'orders', 2, '2026-01-02 08:11:53.497070', '2026-01-02 08:11:55.289000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}', NULL),
(10, '1520b1ebae43', 'clicks', 1, '2026-01-02 08:11:55.323191', '2026-01-02 08:11:55.349000', 'worker-1', '{"blocked": [], "estimated_records": 5, "estimated_bytes": 80, "estimated_seconds": 12.0}', NULL),
(11, '654e20328156', 'clicks', 1, '2026-01-02 08:11:55.323191', '2026-01-02 08:11:55.575000', 'worker-2', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.9}', NULL),
(12, 'f5621164e635', 'clicks', 1, '2026-01-02 08:11:57.323191', '2026-01-02 08:11:57.773000', 'worker-3', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.0}', NULL),
(13, 'afb7ee77e0f6', 'clicks', 1, '2026-01-02 08:11:57.323191', '2026-01-02 08:11:58.026000', 'worker-4', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.8}', NULL);

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('63c597181367', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('63c597181367', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('5ca11087661a', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('36c648c4c37a', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('ed0a19ea1f26', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('fe6fe27cb410', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('f4b2379a7858', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9),
('1520b1ebae43', 3, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from a new stream, from earliest to latest', 10),
('1520b1ebae43', 4, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 10),
('654e20328156', 3, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 11),
('654e20328156', 4, 0, 0, 4, 4, NULL, 'none', 0, 4, 'what is missing from its origin to latest', 11),
('f5621164e635', 5, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('f5621164e635', 6, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('afb7ee77e0f6', 3, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest', 13),
('afb7ee77e0f6', 4, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 13),
('afb7ee77e0f6', 5, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13),
('afb7ee77e0f6', 6, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, lease_holder, lease_until, snapshot_id, committed_at) VALUES
('63c597181367-w0', '63c597181367', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 08:11:54.104000'),
('5ca11087661a-w0', '5ca11087661a', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 08:11:54.296000'),
('36c648c4c37a-w0', '36c648c4c37a', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 08:11:54.468000'),
('ed0a19ea1f26-w0', 'ed0a19ea1f26', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 08:11:54.672000'),
('fe6fe27cb410-w0', 'fe6fe27cb410', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('f4b2379a7858-w0', 'f4b2379a7858', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '66279756ae8e3d81', 'alpha/12/1.00', '2026-01-02 08:13:55.216000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL),
('1520b1ebae43-w0', '1520b1ebae43', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 19, '2026-01-02 08:11:55.496000'),
('654e20328156-w0', '654e20328156', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 21, '2026-01-02 08:11:55.676000'),
('f5621164e635-w0', 'f5621164e635', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 23, '2026-01-02 08:11:57.963000'),
('afb7ee77e0f6-w0', 'afb7ee77e0f6', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 25, '2026-01-02 08:11:58.136000');

INSERT INTO kafka_lake_attempt (wave, fence, attempt, lease_holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at, step, rows_done, rows_expected, bytes_done, bytes_expected, step_at, progress_at) VALUES
('63c597181367-w0', 1, 'f7040ca6f75575a8', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 08:11:54.012000', '2026-01-02 08:11:54.104000', 'publish', 12, 12, 0, NULL, '2026-01-02 08:11:54.062000', '2026-01-02 08:11:54.104000'),
('5ca11087661a-w0', 1, 'fbf1bccbe8725827', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 08:11:54.224000', '2026-01-02 08:11:54.296000', 'publish', 0, 0, 0, NULL, '2026-01-02 08:11:54.274000', '2026-01-02 08:11:54.296000'),
('36c648c4c37a-w0', 1, '4f6456b1c26ebbfe', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 08:11:54.424000', '2026-01-02 08:11:54.468000', 'publish', 2, 2, 0, NULL, '2026-01-02 08:11:54.455000', '2026-01-02 08:11:54.468000'),
('ed0a19ea1f26-w0', 1, '3870545263686ed4', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 08:11:54.539000', '2026-01-02 08:11:54.539000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('ed0a19ea1f26-w0', 2, 'ba8a46e75921edc5', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 08:11:54.599000', '2026-01-02 08:11:54.672000', 'publish', 3, 3, 0, NULL, '2026-01-02 08:11:54.656000', '2026-01-02 08:11:54.672000'),
('fe6fe27cb410-w0', 1, '804cc69442e74e4b', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 08:11:54.716000', '2026-01-02 08:11:54.716000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('fe6fe27cb410-w0', 2, '6287dcdce7135f1d', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 08:11:54.784000', '2026-01-02 08:11:54.847000', 'audit', 1, 2, 0, NULL, '2026-01-02 08:11:54.832000', '2026-01-02 08:11:54.832000'),
('fe6fe27cb410-w0', 3, 'fb9214fc48ad630c', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 08:11:54.861000', '2026-01-02 08:11:54.872000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('f4b2379a7858-w0', 1, '304cecce6597a702', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 08:11:54.891000', '2026-01-02 08:11:54.926000', 'audit', 2, 3, 0, NULL, '2026-01-02 08:11:54.919000', '2026-01-02 08:11:54.919000'),
('f4b2379a7858-w0', 2, '6b1e05cce8d7af54', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 08:11:54.937000', '2026-01-02 08:11:54.950000', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 1, '66279756ae8e3d81', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 08:11:55.216000', NULL, 'read', 0, 2, 0, 32, '2026-01-02 08:11:55.247000', '2026-01-02 08:11:55.247000'),
('1520b1ebae43-w0', 1, '1b47fde3a4e7253e', 'alpha/1/1.00', 'memory-1', 17, 18, 385, 'committed', NULL, '2026-01-02 08:11:55.405000', '2026-01-02 08:11:55.496000', 'publish', 5, 5, 0, NULL, '2026-01-02 08:11:55.468000', '2026-01-02 08:11:55.496000'),
('654e20328156-w0', 1, '8360bd44e6baa60c', 'alpha/2/1.00', 'memory-2', 19, 20, 308, 'committed', NULL, '2026-01-02 08:11:55.603000', '2026-01-02 08:11:55.676000', 'publish', 4, 4, 0, NULL, '2026-01-02 08:11:55.649000', '2026-01-02 08:11:55.676000'),
('f5621164e635-w0', 1, '1dfccbf8124062d6', 'alpha/3/1.00', 'memory-3', 21, 22, 312, 'committed', NULL, '2026-01-02 08:11:57.826000', '2026-01-02 08:11:57.963000', 'publish', 4, 4, 0, NULL, '2026-01-02 08:11:57.924000', '2026-01-02 08:11:57.963000'),
('afb7ee77e0f6-w0', 1, '92f50f0b336ec308', 'alpha/4/1.00', 'memory-4', 23, 24, 312, 'committed', NULL, '2026-01-02 08:11:58.046000', '2026-01-02 08:11:58.136000', 'publish', 4, 4, 0, NULL, '2026-01-02 08:11:58.108000', '2026-01-02 08:11:58.136000');

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('af75f899ea59', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 08:11:54.337000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('63c597181367-w0r0', 1, 'ed0a19ea1f26', 'ed0a19ea1f26-w0', NULL, 0, 3, 1, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('63c597181367-w0r1', 2, '63c597181367', '63c597181367-w0', NULL, 0, 6, 0, 'COMMITTED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('5ca11087661a-w0r0', 1, '5ca11087661a', '5ca11087661a-w0', NULL, 6, 9, 0, 'COMMITTED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('af75f899ea59.9', 1, NULL, NULL, 'af75f899ea59', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('36c648c4c37a-w0r0', 1, 'fe6fe27cb410', 'fe6fe27cb410-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('63c597181367-w0r0.3', 1, '63c597181367', '63c597181367-w0', NULL, 3, 6, 0, 'COMMITTED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('f4b2379a7858-w0r0', 2, 'f4b2379a7858', 'f4b2379a7858-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('1520b1ebae43-w0r0', 3, '1520b1ebae43', '1520b1ebae43-w0', NULL, 0, 3, 0, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('1520b1ebae43-w0r1', 4, '1520b1ebae43', '1520b1ebae43-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('654e20328156-w0r0', 3, '654e20328156', '654e20328156-w0', NULL, 3, 5, 0, 'COMMITTED', NULL, 32, 2, 3, 4, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('654e20328156-w0r1', 4, '654e20328156', '654e20328156-w0', NULL, 2, 4, 0, 'COMMITTED', NULL, 32, 2, 2, 3, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('f5621164e635-w0r0', 5, 'f5621164e635', 'f5621164e635-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('f5621164e635-w0r1', 6, 'f5621164e635', 'f5621164e635-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('afb7ee77e0f6-w0r0', 3, 'afb7ee77e0f6', 'afb7ee77e0f6-w0', NULL, 5, 6, 0, 'COMMITTED', NULL, 16, 1, 5, 5, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('afb7ee77e0f6-w0r1', 4, 'afb7ee77e0f6', 'afb7ee77e0f6-w0', NULL, 4, 5, 0, 'COMMITTED', NULL, 16, 1, 4, 4, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('afb7ee77e0f6-w0r2', 5, 'afb7ee77e0f6', 'afb7ee77e0f6-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('afb7ee77e0f6-w0r3', 6, 'afb7ee77e0f6', 'afb7ee77e0f6-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 08:11:54.139000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 08:11:54.139000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 08:11:54.314000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 08:11:54.488000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 08:11:54.682000', 0, 12, 8),
(6, 'clicks', 3, '2026-01-02 08:11:55.520000', 0, 3, 3),
(7, 'clicks', 4, '2026-01-02 08:11:55.520000', 0, 2, 2),
(8, 'clicks', 3, '2026-01-02 08:11:55.708000', 3, 5, 2),
(9, 'clicks', 4, '2026-01-02 08:11:55.708000', 2, 4, 2),
(10, 'clicks', 5, '2026-01-02 08:11:57.982000', 0, 2, 2),
(11, 'clicks', 6, '2026-01-02 08:11:57.982000', 0, 2, 2),
(12, 'clicks', 3, '2026-01-02 08:11:58.161000', 5, 6, 1),
(13, 'clicks', 4, '2026-01-02 08:11:58.161000', 4, 5, 1),
(14, 'clicks', 5, '2026-01-02 08:11:58.161000', 2, 3, 1),
(15, 'clicks', 6, '2026-01-02 08:11:58.161000', 2, 3, 1);

INSERT INTO kafka_lake_notified (pipeline, sequence, through, lease_holder, lease_until) VALUES
('orders', 4, NULL, NULL, NULL);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 08:11:53.932000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 08:11:53.962000', 'orders', 'ledger', 'table', 'raw.orders', '1c223044-833b-4559-babe-5e7ac2b358c2'),
(3, '2026-01-02 08:11:53.992000', 'orders', 'worker-1', 'plan', '63c597181367', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 08:11:54.021000', 'orders', 'alpha/1/1.00', 'claim', '63c597181367-w0', 'attempt f7040ca6f75575a8, fence 1'),
(5, '2026-01-02 08:11:54.066000', 'orders', 'f7040ca6f75575a8', 'stage', '63c597181367-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 08:11:54.083000', 'orders', 'f7040ca6f75575a8', 'publish', '63c597181367-w0', 'attempt f7040ca6f75575a8'),
(7, '2026-01-02 08:11:54.116000', 'orders', 'f7040ca6f75575a8', 'commit', '63c597181367-w0', 'attempt f7040ca6f75575a8: 2 ranges, 12 rows'),
(8, '2026-01-02 08:11:54.140000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 08:11:54.207000', 'orders', 'worker-2', 'plan', '5ca11087661a', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 08:11:54.237000', 'orders', 'alpha/2/1.00', 'claim', '5ca11087661a-w0', 'attempt fbf1bccbe8725827, fence 1'),
(11, '2026-01-02 08:11:54.276000', 'orders', 'fbf1bccbe8725827', 'stage', '5ca11087661a-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 08:11:54.287000', 'orders', 'fbf1bccbe8725827', 'publish', '5ca11087661a-w0', 'attempt fbf1bccbe8725827'),
(13, '2026-01-02 08:11:54.300000', 'orders', 'fbf1bccbe8725827', 'commit', '5ca11087661a-w0', 'attempt fbf1bccbe8725827: 1 ranges, 0 rows'),
(14, '2026-01-02 08:11:54.314000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 08:11:54.349000', 'orders', 'worker-3', 'skip', 'af75f899ea59', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 08:11:54.410000', 'orders', 'worker-4', 'plan', '36c648c4c37a', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 08:11:54.426000', 'orders', 'alpha/4/1.00', 'claim', '36c648c4c37a-w0', 'attempt 4f6456b1c26ebbfe, fence 1'),
(18, '2026-01-02 08:11:54.456000', 'orders', '4f6456b1c26ebbfe', 'stage', '36c648c4c37a-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 08:11:54.465000', 'orders', '4f6456b1c26ebbfe', 'publish', '36c648c4c37a-w0', 'attempt 4f6456b1c26ebbfe'),
(20, '2026-01-02 08:11:54.471000', 'orders', '4f6456b1c26ebbfe', 'commit', '36c648c4c37a-w0', 'attempt 4f6456b1c26ebbfe: 1 ranges, 2 rows'),
(21, '2026-01-02 08:11:54.488000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 08:11:54.553000', 'orders', 'worker-5', 'reopen', 'ed0a19ea1f26', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 08:11:54.603000', 'orders', 'alpha/6/1.00', 'claim', 'ed0a19ea1f26-w0', 'attempt ba8a46e75921edc5, fence 2'),
(24, '2026-01-02 08:11:54.658000', 'orders', 'ba8a46e75921edc5', 'stage', 'ed0a19ea1f26-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 08:11:54.668000', 'orders', 'ba8a46e75921edc5', 'publish', 'ed0a19ea1f26-w0', 'attempt ba8a46e75921edc5'),
(26, '2026-01-02 08:11:54.674000', 'orders', 'ba8a46e75921edc5', 'commit', 'ed0a19ea1f26-w0', 'attempt ba8a46e75921edc5: 1 ranges, 3 rows'),
(27, '2026-01-02 08:11:54.687000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 08:11:54.721000', 'orders', 'worker-7', 'reopen', 'fe6fe27cb410', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 08:11:54.769000', 'orders', 'worker-8', 'plan', 'f4b2379a7858', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 08:11:54.800000', 'orders', 'alpha/8/1.00', 'claim', 'fe6fe27cb410-w0', 'attempt 6287dcdce7135f1d, fence 2'),
(31, '2026-01-02 08:11:54.850000', 'orders', '6287dcdce7135f1d', 'end', 'fe6fe27cb410-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 08:11:54.863000', 'orders', 'alpha/8/1.00', 'claim', 'fe6fe27cb410-w0', 'attempt fb9214fc48ad630c, fence 3'),
(33, '2026-01-02 08:11:54.878000', 'orders', 'worker-8', 'revoke', 'fe6fe27cb410-w0', '36c648c4c37a-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 08:11:54.898000', 'orders', 'alpha/8/1.00', 'claim', 'f4b2379a7858-w0', 'attempt 304cecce6597a702, fence 1'),
(35, '2026-01-02 08:11:54.927000', 'orders', '304cecce6597a702', 'end', 'f4b2379a7858-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 08:11:54.939000', 'orders', 'alpha/8/1.00', 'claim', 'f4b2379a7858-w0', 'attempt 6b1e05cce8d7af54, fence 2'),
(37, '2026-01-02 08:11:54.956000', 'orders', 'worker-8', 'revoke', 'f4b2379a7858-w0', 'f4b2379a7858-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 08:11:55.129000', 'orders', 'worker-10', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 08:11:55.158000', 'orders', 'worker-9', 'revoke', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 08:11:55.208000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 08:11:55.224000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt 66279756ae8e3d81, fence 1'),
(42, '2026-01-02 08:11:55.272000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 08:11:55.304000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets'),
(44, '2026-01-02 08:11:55.333000', 'clicks', 'ledger', 'pipeline', 'clicks', 'version 1'),
(45, '2026-01-02 08:11:55.341000', 'clicks', 'ledger', 'table', 'raw.clicks', '22dfb76d-2f01-46ab-aba0-66cbed305249'),
(46, '2026-01-02 08:11:55.380000', 'clicks', 'worker-1', 'plan', '1520b1ebae43', '2 streams, 1 waves, 2 ranges, 5 offsets'),
(47, '2026-01-02 08:11:55.413000', 'clicks', 'alpha/1/1.00', 'claim', '1520b1ebae43-w0', 'attempt 1b47fde3a4e7253e, fence 1'),
(48, '2026-01-02 08:11:55.469000', 'clicks', '1b47fde3a4e7253e', 'stage', '1520b1ebae43-w0', 'snapshot 18, 385 bytes'),
(49, '2026-01-02 08:11:55.483000', 'clicks', '1b47fde3a4e7253e', 'publish', '1520b1ebae43-w0', 'attempt 1b47fde3a4e7253e'),
(50, '2026-01-02 08:11:55.504000', 'clicks', '1b47fde3a4e7253e', 'commit', '1520b1ebae43-w0', 'attempt 1b47fde3a4e7253e: 2 ranges, 5 rows'),
(51, '2026-01-02 08:11:55.523000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 5 offsets, 5 rows'),
(52, '2026-01-02 08:11:55.584000', 'clicks', 'worker-2', 'plan', '654e20328156', '2 streams, 1 waves, 2 ranges, 4 offsets'),
(53, '2026-01-02 08:11:55.606000', 'clicks', 'alpha/2/1.00', 'claim', '654e20328156-w0', 'attempt 8360bd44e6baa60c, fence 1'),
(54, '2026-01-02 08:11:55.650000', 'clicks', '8360bd44e6baa60c', 'stage', '654e20328156-w0', 'snapshot 20, 308 bytes'),
(55, '2026-01-02 08:11:55.667000', 'clicks', '8360bd44e6baa60c', 'publish', '654e20328156-w0', 'attempt 8360bd44e6baa60c'),
(56, '2026-01-02 08:11:55.686000', 'clicks', '8360bd44e6baa60c', 'commit', '654e20328156-w0', 'attempt 8360bd44e6baa60c: 2 ranges, 4 rows'),
(57, '2026-01-02 08:11:55.709000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(58, '2026-01-02 08:11:57.792000', 'clicks', 'worker-3', 'plan', 'f5621164e635', '4 streams, 1 waves, 2 ranges, 4 offsets'),
(59, '2026-01-02 08:11:57.831000', 'clicks', 'alpha/3/1.00', 'claim', 'f5621164e635-w0', 'attempt 1dfccbf8124062d6, fence 1'),
(60, '2026-01-02 08:11:57.926000', 'clicks', '1dfccbf8124062d6', 'stage', 'f5621164e635-w0', 'snapshot 22, 312 bytes'),
(61, '2026-01-02 08:11:57.957000', 'clicks', '1dfccbf8124062d6', 'publish', 'f5621164e635-w0', 'attempt 1dfccbf8124062d6'),
(62, '2026-01-02 08:11:57.967000', 'clicks', '1dfccbf8124062d6', 'commit', 'f5621164e635-w0', 'attempt 1dfccbf8124062d6: 2 ranges, 4 rows'),
(63, '2026-01-02 08:11:57.982000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(64, '2026-01-02 08:11:58.030000', 'clicks', 'worker-4', 'plan', 'afb7ee77e0f6', '4 streams, 1 waves, 4 ranges, 4 offsets'),
(65, '2026-01-02 08:11:58.049000', 'clicks', 'alpha/4/1.00', 'claim', 'afb7ee77e0f6-w0', 'attempt 92f50f0b336ec308, fence 1'),
(66, '2026-01-02 08:11:58.111000', 'clicks', '92f50f0b336ec308', 'stage', 'afb7ee77e0f6-w0', 'snapshot 24, 312 bytes'),
(67, '2026-01-02 08:11:58.121000', 'clicks', '92f50f0b336ec308', 'publish', 'afb7ee77e0f6-w0', 'attempt 92f50f0b336ec308'),
(68, '2026-01-02 08:11:58.140000', 'clicks', '92f50f0b336ec308', 'commit', 'afb7ee77e0f6-w0', 'attempt 92f50f0b336ec308: 4 ranges, 4 rows'),
(69, '2026-01-02 08:11:58.161000', 'clicks', 'ledger', 'advance', 'clicks', '4 watermarks, 4 offsets, 4 rows');

INSERT INTO kafka_lake_outbox (id, pipeline, table_name, kind, wave, attempt, fence, stream, start_offset, end_offset, generation, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, recorded_at, offsets) VALUES
(22, 'clicks', 'raw.clicks', 'published', 'afb7ee77e0f6-w0', '92f50f0b336ec308', 1, 3, 5, 6, 0, 1, 5, 5, 1, 0, 0, 0, 0, 0, '2026-01-02 08:11:58.136000', NULL),
(23, 'clicks', 'raw.clicks', 'published', 'afb7ee77e0f6-w0', '92f50f0b336ec308', 1, 4, 4, 5, 0, 1, 4, 4, 1, 0, 0, 0, 0, 0, '2026-01-02 08:11:58.136000', NULL),
(24, 'clicks', 'raw.clicks', 'published', 'afb7ee77e0f6-w0', '92f50f0b336ec308', 1, 5, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 08:11:58.136000', NULL),
(25, 'clicks', 'raw.clicks', 'published', 'afb7ee77e0f6-w0', '92f50f0b336ec308', 1, 6, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 08:11:58.136000', NULL);
