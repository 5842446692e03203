INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', 'dd0104a3182ce303de4b780ff800957c');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd775ca6ca933a4e1', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 04:57:00.148000'),
('orders', 2, '917086a051758473', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 04:57:00.495000'),
('clicks', 1, '82a42f0b269d6397', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 2, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "clicks", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": "clicks-group", "table": "raw.clicks", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 04:57:00.510000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '7c4ff281-3b5c-4f77-8041-c29880ee708d'),
('clicks', 'raw.clicks', '085a6985-fae8-4a92-b595-ce4840d41310');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 04:57:00.033755'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 04:57:00.033755'),
(3, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 6, 7, 6, 0, '2026-01-02 04:57:00.507947'),
(4, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 5, 7, 5, 0, '2026-01-02 04:57:00.507947'),
(5, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, 0, 3, 4, 3, 0, '2026-01-02 04:57:02.507947'),
(6, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 3, 0, 3, 4, 3, 0, '2026-01-02 04:57:02.507947');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 04:57:00.033755', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 04:57:00.507947', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 4, '2026-01-02 04:57:00.507947', 1);

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

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, '30f1b1021951', 'orders', 1, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.157000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, 'a50d466d232b', 'orders', 1, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.227000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.8}'),
(3, '1cdf0825f072', 'orders', 1, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.288000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.0}'),
(4, '06dc10c3dd68', 'orders', 1, '2026-01-02 04:57:00.327000', '2026-01-02 04:57:00.327000', 'worker-5', '{}'),
(5, '91bb727310e8', 'orders', 1, '2026-01-02 04:57:00.381000', '2026-01-02 04:57:00.381000', 'worker-7', '{}'),
(6, '3e979ab36eec', 'orders', 1, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.401000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.7}'),
(7, 'p1', 'orders', 1, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.459000', 'worker-10', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}'),
(8, 'p2', 'orders', 1, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.477000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}'),
(9, 'p3', 'orders', 2, '2026-01-02 04:57:00.033755', '2026-01-02 04:57:00.500000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}'),
(10, 'acb96266bcaa', 'clicks', 1, '2026-01-02 04:57:00.507947', '2026-01-02 04:57:00.515000', 'worker-1', '{"blocked": [], "estimated_records": 5, "estimated_bytes": 80, "estimated_seconds": 12.0}'),
(11, 'b7b0577341df', 'clicks', 1, '2026-01-02 04:57:00.507947', '2026-01-02 04:57:00.625000', 'worker-2', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.8}'),
(12, '2875084d5f1b', 'clicks', 1, '2026-01-02 04:57:02.507947', '2026-01-02 04:57:02.673000', 'worker-3', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.0}'),
(13, '33018cdc770d', 'clicks', 1, '2026-01-02 04:57:02.507947', '2026-01-02 04:57:02.726000', 'worker-4', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('30f1b1021951', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('30f1b1021951', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('a50d466d232b', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('1cdf0825f072', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('06dc10c3dd68', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('91bb727310e8', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('3e979ab36eec', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9),
('acb96266bcaa', 3, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from a new stream, from earliest to latest', 10),
('acb96266bcaa', 4, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 10),
('b7b0577341df', 3, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 11),
('b7b0577341df', 4, 0, 0, 4, 4, NULL, 'none', 0, 4, 'what is missing from its origin to latest', 11),
('2875084d5f1b', 5, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('2875084d5f1b', 6, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('33018cdc770d', 3, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest', 13),
('33018cdc770d', 4, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 13),
('33018cdc770d', 5, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13),
('33018cdc770d', 6, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, lease_holder, lease_until, snapshot_id, committed_at) VALUES
('30f1b1021951-w0', '30f1b1021951', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 04:57:00.201000'),
('a50d466d232b-w0', 'a50d466d232b', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 04:57:00.256000'),
('1cdf0825f072-w0', '1cdf0825f072', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 04:57:00.309000'),
('06dc10c3dd68-w0', '06dc10c3dd68', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 04:57:00.366000'),
('91bb727310e8-w0', '91bb727310e8', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('3e979ab36eec-w0', '3e979ab36eec', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '066041dae59db641', 'alpha/12/1.00', '2026-01-02 04:59:00.483000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL),
('acb96266bcaa-w0', 'acb96266bcaa', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 19, '2026-01-02 04:57:00.541000'),
('b7b0577341df-w0', 'b7b0577341df', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 21, '2026-01-02 04:57:00.649000'),
('2875084d5f1b-w0', '2875084d5f1b', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 23, '2026-01-02 04:57:02.705000'),
('33018cdc770d-w0', '33018cdc770d', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 25, '2026-01-02 04:57:02.752000');

INSERT INTO kafka_lake_attempt (wave, fence, attempt, lease_holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('30f1b1021951-w0', 1, '0aa34a66a35766ad', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 04:57:00.182000', '2026-01-02 04:57:00.201000'),
('a50d466d232b-w0', 1, 'f1f4603c276ce475', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 04:57:00.235000', '2026-01-02 04:57:00.256000'),
('1cdf0825f072-w0', 1, '160d1a1da82abd69', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 04:57:00.296000', '2026-01-02 04:57:00.309000'),
('06dc10c3dd68-w0', 1, 'f2a5b6dd04aae99f', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 04:57:00.327000', '2026-01-02 04:57:00.327000'),
('06dc10c3dd68-w0', 2, '1e3fd2cdd5ddf7ed', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 04:57:00.351000', '2026-01-02 04:57:00.366000'),
('91bb727310e8-w0', 1, '880e92a583c27548', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 04:57:00.381000', '2026-01-02 04:57:00.381000'),
('91bb727310e8-w0', 2, 'cf70ba99c9a2ef26', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 04:57:00.408000', '2026-01-02 04:57:00.415000'),
('91bb727310e8-w0', 3, 'fc4c487bf8b62dbc', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 04:57:00.418000', '2026-01-02 04:57:00.422000'),
('3e979ab36eec-w0', 1, 'e9b942d6ffe3b1d3', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 04:57:00.427000', '2026-01-02 04:57:00.436000'),
('3e979ab36eec-w0', 2, 'e18f1e942e4ca952', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 04:57:00.439000', '2026-01-02 04:57:00.443000'),
('p2-w0', 1, '066041dae59db641', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 04:57:00.483000', NULL),
('acb96266bcaa-w0', 1, '42145fcbc26d9f71', 'alpha/1/1.00', 'memory-1', 17, 18, 385, 'committed', NULL, '2026-01-02 04:57:00.526000', '2026-01-02 04:57:00.541000'),
('b7b0577341df-w0', 1, '04ec98c02b0300e1', 'alpha/2/1.00', 'memory-2', 19, 20, 308, 'committed', NULL, '2026-01-02 04:57:00.636000', '2026-01-02 04:57:00.649000'),
('2875084d5f1b-w0', 1, '3c6a45851c55c469', 'alpha/3/1.00', 'memory-3', 21, 22, 312, 'committed', NULL, '2026-01-02 04:57:02.689000', '2026-01-02 04:57:02.705000'),
('33018cdc770d-w0', 1, 'b2335b9406af7686', 'alpha/4/1.00', 'memory-4', 23, 24, 312, 'committed', NULL, '2026-01-02 04:57:02.735000', '2026-01-02 04:57:02.752000');

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('37f3a73ac6e0', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 04:57:00.270000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('30f1b1021951-w0r0', 1, '06dc10c3dd68', '06dc10c3dd68-w0', NULL, 0, 3, 1, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('30f1b1021951-w0r1', 2, '30f1b1021951', '30f1b1021951-w0', NULL, 0, 6, 0, 'COMMITTED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('a50d466d232b-w0r0', 1, 'a50d466d232b', 'a50d466d232b-w0', NULL, 6, 9, 0, 'COMMITTED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('37f3a73ac6e0.9', 1, NULL, NULL, '37f3a73ac6e0', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('1cdf0825f072-w0r0', 1, '91bb727310e8', '91bb727310e8-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('30f1b1021951-w0r0.3', 1, '30f1b1021951', '30f1b1021951-w0', NULL, 3, 6, 0, 'COMMITTED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('3e979ab36eec-w0r0', 2, '3e979ab36eec', '3e979ab36eec-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('acb96266bcaa-w0r0', 3, 'acb96266bcaa', 'acb96266bcaa-w0', NULL, 0, 3, 0, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('acb96266bcaa-w0r1', 4, 'acb96266bcaa', 'acb96266bcaa-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('b7b0577341df-w0r0', 3, 'b7b0577341df', 'b7b0577341df-w0', NULL, 3, 5, 0, 'COMMITTED', NULL, 32, 2, 3, 4, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('b7b0577341df-w0r1', 4, 'b7b0577341df', 'b7b0577341df-w0', NULL, 2, 4, 0, 'COMMITTED', NULL, 32, 2, 2, 3, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('2875084d5f1b-w0r0', 5, '2875084d5f1b', '2875084d5f1b-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('2875084d5f1b-w0r1', 6, '2875084d5f1b', '2875084d5f1b-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('33018cdc770d-w0r0', 3, '33018cdc770d', '33018cdc770d-w0', NULL, 5, 6, 0, 'COMMITTED', NULL, 16, 1, 5, 5, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('33018cdc770d-w0r1', 4, '33018cdc770d', '33018cdc770d-w0', NULL, 4, 5, 0, 'COMMITTED', NULL, 16, 1, 4, 4, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('33018cdc770d-w0r2', 5, '33018cdc770d', '33018cdc770d-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('33018cdc770d-w0r3', 6, '33018cdc770d', '33018cdc770d-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 04:57:00.211000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 04:57:00.211000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 04:57:00.265000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 04:57:00.315000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 04:57:00.372000', 0, 12, 8),
(6, 'clicks', 3, '2026-01-02 04:57:00.610000', 0, 3, 3),
(7, 'clicks', 4, '2026-01-02 04:57:00.610000', 0, 2, 2),
(8, 'clicks', 3, '2026-01-02 04:57:00.659000', 3, 5, 2),
(9, 'clicks', 4, '2026-01-02 04:57:00.659000', 2, 4, 2),
(10, 'clicks', 5, '2026-01-02 04:57:02.712000', 0, 2, 2),
(11, 'clicks', 6, '2026-01-02 04:57:02.712000', 0, 2, 2),
(12, 'clicks', 3, '2026-01-02 04:57:02.759000', 5, 6, 1),
(13, 'clicks', 4, '2026-01-02 04:57:02.759000', 4, 5, 1),
(14, 'clicks', 5, '2026-01-02 04:57:02.759000', 2, 3, 1),
(15, 'clicks', 6, '2026-01-02 04:57:02.759000', 2, 3, 1);

INSERT INTO kafka_lake_notified (pipeline, sequence) VALUES
('orders', 4);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 04:57:00.150000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 04:57:00.153000', 'orders', 'ledger', 'table', 'raw.orders', '7c4ff281-3b5c-4f77-8041-c29880ee708d'),
(3, '2026-01-02 04:57:00.171000', 'orders', 'worker-1', 'plan', '30f1b1021951', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 04:57:00.185000', 'orders', 'alpha/1/1.00', 'claim', '30f1b1021951-w0', 'attempt 0aa34a66a35766ad, fence 1'),
(5, '2026-01-02 04:57:00.195000', 'orders', '0aa34a66a35766ad', 'stage', '30f1b1021951-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 04:57:00.200000', 'orders', '0aa34a66a35766ad', 'publish', '30f1b1021951-w0', 'attempt 0aa34a66a35766ad'),
(7, '2026-01-02 04:57:00.204000', 'orders', '0aa34a66a35766ad', 'commit', '30f1b1021951-w0', 'attempt 0aa34a66a35766ad: 2 ranges, 12 rows'),
(8, '2026-01-02 04:57:00.212000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 04:57:00.231000', 'orders', 'worker-2', 'plan', 'a50d466d232b', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 04:57:00.237000', 'orders', 'alpha/2/1.00', 'claim', 'a50d466d232b-w0', 'attempt f1f4603c276ce475, fence 1'),
(11, '2026-01-02 04:57:00.251000', 'orders', 'f1f4603c276ce475', 'stage', 'a50d466d232b-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 04:57:00.255000', 'orders', 'f1f4603c276ce475', 'publish', 'a50d466d232b-w0', 'attempt f1f4603c276ce475'),
(13, '2026-01-02 04:57:00.259000', 'orders', 'f1f4603c276ce475', 'commit', 'a50d466d232b-w0', 'attempt f1f4603c276ce475: 1 ranges, 0 rows'),
(14, '2026-01-02 04:57:00.266000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 04:57:00.275000', 'orders', 'worker-3', 'skip', '37f3a73ac6e0', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 04:57:00.292000', 'orders', 'worker-4', 'plan', '1cdf0825f072', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 04:57:00.298000', 'orders', 'alpha/4/1.00', 'claim', '1cdf0825f072-w0', 'attempt 160d1a1da82abd69, fence 1'),
(18, '2026-01-02 04:57:00.305000', 'orders', '160d1a1da82abd69', 'stage', '1cdf0825f072-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 04:57:00.308000', 'orders', '160d1a1da82abd69', 'publish', '1cdf0825f072-w0', 'attempt 160d1a1da82abd69'),
(20, '2026-01-02 04:57:00.311000', 'orders', '160d1a1da82abd69', 'commit', '1cdf0825f072-w0', 'attempt 160d1a1da82abd69: 1 ranges, 2 rows'),
(21, '2026-01-02 04:57:00.315000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 04:57:00.334000', 'orders', 'worker-5', 'reopen', '06dc10c3dd68', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 04:57:00.353000', 'orders', 'alpha/6/1.00', 'claim', '06dc10c3dd68-w0', 'attempt 1e3fd2cdd5ddf7ed, fence 2'),
(24, '2026-01-02 04:57:00.361000', 'orders', '1e3fd2cdd5ddf7ed', 'stage', '06dc10c3dd68-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 04:57:00.364000', 'orders', '1e3fd2cdd5ddf7ed', 'publish', '06dc10c3dd68-w0', 'attempt 1e3fd2cdd5ddf7ed'),
(26, '2026-01-02 04:57:00.368000', 'orders', '1e3fd2cdd5ddf7ed', 'commit', '06dc10c3dd68-w0', 'attempt 1e3fd2cdd5ddf7ed: 1 ranges, 3 rows'),
(27, '2026-01-02 04:57:00.372000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 04:57:00.386000', 'orders', 'worker-7', 'reopen', '91bb727310e8', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 04:57:00.404000', 'orders', 'worker-8', 'plan', '3e979ab36eec', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 04:57:00.409000', 'orders', 'alpha/8/1.00', 'claim', '91bb727310e8-w0', 'attempt cf70ba99c9a2ef26, fence 2'),
(31, '2026-01-02 04:57:00.417000', 'orders', 'cf70ba99c9a2ef26', 'end', '91bb727310e8-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 04:57:00.420000', 'orders', 'alpha/8/1.00', 'claim', '91bb727310e8-w0', 'attempt fc4c487bf8b62dbc, fence 3'),
(33, '2026-01-02 04:57:00.425000', 'orders', 'worker-8', 'revoke', '91bb727310e8-w0', '1cdf0825f072-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 04:57:00.429000', 'orders', 'alpha/8/1.00', 'claim', '3e979ab36eec-w0', 'attempt e9b942d6ffe3b1d3, fence 1'),
(35, '2026-01-02 04:57:00.437000', 'orders', 'e9b942d6ffe3b1d3', 'end', '3e979ab36eec-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 04:57:00.441000', 'orders', 'alpha/8/1.00', 'claim', '3e979ab36eec-w0', 'attempt e18f1e942e4ca952, fence 2'),
(37, '2026-01-02 04:57:00.446000', 'orders', 'worker-8', 'revoke', '3e979ab36eec-w0', '3e979ab36eec-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 04:57:00.462000', 'orders', 'worker-10', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 04:57:00.467000', 'orders', 'worker-9', 'revoke', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 04:57:00.480000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 04:57:00.485000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt 066041dae59db641, fence 1'),
(42, '2026-01-02 04:57:00.496000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 04:57:00.506000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets'),
(44, '2026-01-02 04:57:00.511000', 'clicks', 'ledger', 'pipeline', 'clicks', 'version 1'),
(45, '2026-01-02 04:57:00.513000', 'clicks', 'ledger', 'table', 'raw.clicks', '085a6985-fae8-4a92-b595-ce4840d41310'),
(46, '2026-01-02 04:57:00.521000', 'clicks', 'worker-1', 'plan', 'acb96266bcaa', '2 streams, 1 waves, 2 ranges, 5 offsets'),
(47, '2026-01-02 04:57:00.528000', 'clicks', 'alpha/1/1.00', 'claim', 'acb96266bcaa-w0', 'attempt 42145fcbc26d9f71, fence 1'),
(48, '2026-01-02 04:57:00.537000', 'clicks', '42145fcbc26d9f71', 'stage', 'acb96266bcaa-w0', 'snapshot 18, 385 bytes'),
(49, '2026-01-02 04:57:00.540000', 'clicks', '42145fcbc26d9f71', 'publish', 'acb96266bcaa-w0', 'attempt 42145fcbc26d9f71'),
(50, '2026-01-02 04:57:00.546000', 'clicks', '42145fcbc26d9f71', 'commit', 'acb96266bcaa-w0', 'attempt 42145fcbc26d9f71: 2 ranges, 5 rows'),
(51, '2026-01-02 04:57:00.611000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 5 offsets, 5 rows'),
(52, '2026-01-02 04:57:00.632000', 'clicks', 'worker-2', 'plan', 'b7b0577341df', '2 streams, 1 waves, 2 ranges, 4 offsets'),
(53, '2026-01-02 04:57:00.638000', 'clicks', 'alpha/2/1.00', 'claim', 'b7b0577341df-w0', 'attempt 04ec98c02b0300e1, fence 1'),
(54, '2026-01-02 04:57:00.645000', 'clicks', '04ec98c02b0300e1', 'stage', 'b7b0577341df-w0', 'snapshot 20, 308 bytes'),
(55, '2026-01-02 04:57:00.648000', 'clicks', '04ec98c02b0300e1', 'publish', 'b7b0577341df-w0', 'attempt 04ec98c02b0300e1'),
(56, '2026-01-02 04:57:00.654000', 'clicks', '04ec98c02b0300e1', 'commit', 'b7b0577341df-w0', 'attempt 04ec98c02b0300e1: 2 ranges, 4 rows'),
(57, '2026-01-02 04:57:00.659000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(58, '2026-01-02 04:57:02.682000', 'clicks', 'worker-3', 'plan', '2875084d5f1b', '4 streams, 1 waves, 2 ranges, 4 offsets'),
(59, '2026-01-02 04:57:02.690000', 'clicks', 'alpha/3/1.00', 'claim', '2875084d5f1b-w0', 'attempt 3c6a45851c55c469, fence 1'),
(60, '2026-01-02 04:57:02.699000', 'clicks', '3c6a45851c55c469', 'stage', '2875084d5f1b-w0', 'snapshot 22, 312 bytes'),
(61, '2026-01-02 04:57:02.705000', 'clicks', '3c6a45851c55c469', 'publish', '2875084d5f1b-w0', 'attempt 3c6a45851c55c469'),
(62, '2026-01-02 04:57:02.708000', 'clicks', '3c6a45851c55c469', 'commit', '2875084d5f1b-w0', 'attempt 3c6a45851c55c469: 2 ranges, 4 rows'),
(63, '2026-01-02 04:57:02.712000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(64, '2026-01-02 04:57:02.730000', 'clicks', 'worker-4', 'plan', '33018cdc770d', '4 streams, 1 waves, 4 ranges, 4 offsets'),
(65, '2026-01-02 04:57:02.737000', 'clicks', 'alpha/4/1.00', 'claim', '33018cdc770d-w0', 'attempt b2335b9406af7686, fence 1'),
(66, '2026-01-02 04:57:02.746000', 'clicks', 'b2335b9406af7686', 'stage', '33018cdc770d-w0', 'snapshot 24, 312 bytes'),
(67, '2026-01-02 04:57:02.751000', 'clicks', 'b2335b9406af7686', 'publish', '33018cdc770d-w0', 'attempt b2335b9406af7686'),
(68, '2026-01-02 04:57:02.755000', 'clicks', 'b2335b9406af7686', 'commit', '33018cdc770d-w0', 'attempt b2335b9406af7686: 4 ranges, 4 rows'),
(69, '2026-01-02 04:57:02.760000', 'clicks', 'ledger', 'advance', 'clicks', '4 watermarks, 4 offsets, 4 rows');

INSERT INTO kafka_lake_outbox (id, pipeline, table_name, kind, wave, attempt, fence, stream, start_offset, end_offset, generation, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, recorded_at, offsets) VALUES
(22, 'clicks', 'raw.clicks', 'published', '33018cdc770d-w0', 'b2335b9406af7686', 1, 3, 5, 6, 0, 1, 5, 5, 1, 0, 0, 0, 0, 0, '2026-01-02 04:57:02.752000', NULL),
(23, 'clicks', 'raw.clicks', 'published', '33018cdc770d-w0', 'b2335b9406af7686', 1, 4, 4, 5, 0, 1, 4, 4, 1, 0, 0, 0, 0, 0, '2026-01-02 04:57:02.752000', NULL),
(24, 'clicks', 'raw.clicks', 'published', '33018cdc770d-w0', 'b2335b9406af7686', 1, 5, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 04:57:02.752000', NULL),
(25, 'clicks', 'raw.clicks', 'published', '33018cdc770d-w0', 'b2335b9406af7686', 1, 6, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 04:57:02.752000', NULL);
