INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '3a5bf99ae7d6a3af2f28d58f6df932a0');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'df280a352f062a4e', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait_seconds": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait_seconds": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:22:49.425000'),
('orders', 2, '208afaeb222d01e6', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait_seconds": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait_seconds": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:22:52.020000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '188fb0be-0549-47c7-a91f-fc2ea847c645');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 12, 11, 17, 0),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, '724468daf571', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:49.578000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 87, "estimated_seconds": 12.0}'),
(2, 'ad3021c989c0', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:50.249000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 232, "estimated_seconds": 12.0}'),
(3, '5a70a1004557', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:50.829000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 124, "estimated_seconds": 12.0}'),
(4, '614c6cfb7f4a', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:51.254000', 'worker-5', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 191, "estimated_seconds": 12.1}'),
(5, 'p1', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:51.706000', 'worker-6', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 127, "estimated_seconds": 12.1}'),
(6, 'p2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:51.869000', 'worker-8', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 127, "estimated_seconds": 12.1}'),
(7, 'p3', 'orders', 2, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:52.118000', 'worker-10', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 255, "estimated_seconds": 12.1}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason) VALUES
('724468daf571', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('724468daf571', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('ad3021c989c0', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('ad3021c989c0', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('5a70a1004557', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('5a70a1004557', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('614c6cfb7f4a', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('614c6cfb7f4a', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('p1', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest'),
('p2', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest'),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest');

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('724468daf571-w0', '724468daf571', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:22:49.980000'),
('ad3021c989c0-w0', 'ad3021c989c0', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:22:50.460000'),
('5a70a1004557-w0', '5a70a1004557', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:22:51.068000'),
('614c6cfb7f4a-w0', '614c6cfb7f4a', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, 'f48d5b54e51efb21', 'alpha/9/1.00', '2026-01-02 17:24:51.931000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('724468daf571-w0', 1, 'e1c40f9561ce8700', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:22:49.806000', '2026-01-02 17:22:49.997000'),
('ad3021c989c0-w0', 1, '198d5101943145a3', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:22:50.313000', '2026-01-02 17:22:50.476000'),
('5a70a1004557-w0', 1, 'a92ab0c9d643fade', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:22:50.931000', '2026-01-02 17:22:51.082000'),
('614c6cfb7f4a-w0', 1, '1d18ed99d09b33af', 'alpha/5/1.00', 'memory-4', 7, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:22:51.462000', '2026-01-02 17:22:51.581000'),
('614c6cfb7f4a-w0', 2, 'a54991f95004ed4d', 'alpha/5/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:22:51.599000', '2026-01-02 17:22:51.610000'),
('p2-w0', 1, 'f48d5b54e51efb21', 'alpha/9/1.00', 'memory-5', 9, NULL, NULL, 'running', NULL, '2026-01-02 17:22:51.932000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('ac693037f658', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:22:50.608000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained) VALUES
('724468daf571-w0r0', 1, '724468daf571', '724468daf571-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 42, 6, 0, 5, 6, 0, 0, 0, 0, 0),
('724468daf571-w0r1', 2, '724468daf571', '724468daf571-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 45, 6, 0, 5, 6, 0, 0, 0, 0, 0),
('ad3021c989c0-w0r0', 1, 'ad3021c989c0', 'ad3021c989c0-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 232, 0, NULL, NULL, 0, 1, 2, 0, 0, 0),
('ac693037f658.9', 1, NULL, NULL, 'ac693037f658', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0),
('5a70a1004557-w0r0', 1, '5a70a1004557', '5a70a1004557-w0', NULL, 10, 12, 0, 'SETTLED', NULL, 124, 2, 10, 11, 2, 0, 0, 0, 0, 0),
('614c6cfb7f4a-w0r0', 2, '614c6cfb7f4a', '614c6cfb7f4a-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 191, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 127, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 127, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 191, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 64, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:22:50.105000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:22:50.105000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:22:50.548000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:22:51.140000', 9, 12, 2);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:22:49.446000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:22:49.466000', 'orders', 'ledger', 'table', 'raw.orders', '188fb0be-0549-47c7-a91f-fc2ea847c645'),
(3, '2026-01-02 17:22:49.636000', 'orders', 'worker-1', 'plan', '724468daf571', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:22:49.822000', 'orders', 'alpha/1/1.00', 'claim', '724468daf571-w0', 'attempt e1c40f9561ce8700, fence 1'),
(5, '2026-01-02 17:22:49.934000', 'orders', 'e1c40f9561ce8700', 'stage', '724468daf571-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:22:49.962000', 'orders', 'e1c40f9561ce8700', 'publish', '724468daf571-w0', 'attempt e1c40f9561ce8700'),
(7, '2026-01-02 17:22:50.029000', 'orders', 'e1c40f9561ce8700', 'settle', '724468daf571-w0', 'attempt e1c40f9561ce8700: 2 ranges, 12 rows'),
(8, '2026-01-02 17:22:50.106000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:22:50.267000', 'orders', 'worker-2', 'plan', 'ad3021c989c0', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:22:50.314000', 'orders', 'alpha/2/1.00', 'claim', 'ad3021c989c0-w0', 'attempt 198d5101943145a3, fence 1'),
(11, '2026-01-02 17:22:50.418000', 'orders', '198d5101943145a3', 'stage', 'ad3021c989c0-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:22:50.442000', 'orders', '198d5101943145a3', 'publish', 'ad3021c989c0-w0', 'attempt 198d5101943145a3'),
(13, '2026-01-02 17:22:50.478000', 'orders', '198d5101943145a3', 'settle', 'ad3021c989c0-w0', 'attempt 198d5101943145a3: 1 ranges, 0 rows'),
(14, '2026-01-02 17:22:50.548000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:22:50.674000', 'orders', 'worker-3', 'skip', 'ac693037f658', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:22:50.853000', 'orders', 'worker-4', 'plan', '5a70a1004557', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:22:50.932000', 'orders', 'alpha/4/1.00', 'claim', '5a70a1004557-w0', 'attempt a92ab0c9d643fade, fence 1'),
(18, '2026-01-02 17:22:51.022000', 'orders', 'a92ab0c9d643fade', 'stage', '5a70a1004557-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:22:51.050000', 'orders', 'a92ab0c9d643fade', 'publish', '5a70a1004557-w0', 'attempt a92ab0c9d643fade'),
(20, '2026-01-02 17:22:51.090000', 'orders', 'a92ab0c9d643fade', 'settle', '5a70a1004557-w0', 'attempt a92ab0c9d643fade: 1 ranges, 2 rows'),
(21, '2026-01-02 17:22:51.140000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:22:51.285000', 'orders', 'worker-5', 'plan', '614c6cfb7f4a', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(23, '2026-01-02 17:22:51.478000', 'orders', 'alpha/5/1.00', 'claim', '614c6cfb7f4a-w0', 'attempt 1d18ed99d09b33af, fence 1'),
(24, '2026-01-02 17:22:51.582000', 'orders', '1d18ed99d09b33af', 'end', '614c6cfb7f4a-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(25, '2026-01-02 17:22:51.599000', 'orders', 'alpha/5/1.00', 'claim', '614c6cfb7f4a-w0', 'attempt a54991f95004ed4d, fence 2'),
(26, '2026-01-02 17:22:51.614000', 'orders', 'worker-5', 'take', '614c6cfb7f4a-w0', '614c6cfb7f4a-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(27, '2026-01-02 17:22:51.744000', 'orders', 'worker-6', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(28, '2026-01-02 17:22:51.794000', 'orders', 'worker-7', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(29, '2026-01-02 17:22:51.907000', 'orders', 'worker-8', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(30, '2026-01-02 17:22:51.933000', 'orders', 'alpha/9/1.00', 'claim', 'p2-w0', 'attempt f48d5b54e51efb21, fence 1'),
(31, '2026-01-02 17:22:52.021000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(32, '2026-01-02 17:22:52.176000', 'orders', 'worker-10', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
