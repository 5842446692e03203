INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', 'a4b363bd40463c5f407c6319f2fa813d');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd889d222ac644764', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:23:20.556000'),
('orders', 2, 'd29dfdbafbbb04cf', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:23:24.079000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '8033edf1-0045-4f9f-8a78-9b3a9d8d0871');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-01 00:00:00.000000'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-01 00:00:00.000000');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-01 00:00:00.000000', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, 'c889ec62b7ff', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:20.643000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, 'ce1e7fa4e84e', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:21.440000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}'),
(3, '1e979943f2d2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:21.875000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.1}'),
(4, '7aac32aa8be7', 'orders', 1, '2026-01-02 17:23:22.422000', '2026-01-02 17:23:22.422000', 'worker-5', '{}'),
(5, '3dde80e32cfd', 'orders', 1, '2026-01-02 17:23:22.958000', '2026-01-02 17:23:22.958000', 'worker-7', '{}'),
(6, 'a0a6b910d091', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:23.150000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.8}'),
(7, 'p1', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:23.721000', 'worker-9', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(8, 'p2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:23.912000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(9, 'p3', 'orders', 2, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:24.162000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.8}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason) VALUES
('c889ec62b7ff', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('c889ec62b7ff', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('ce1e7fa4e84e', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('ce1e7fa4e84e', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('1e979943f2d2', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('1e979943f2d2', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('7aac32aa8be7', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong'),
('3dde80e32cfd', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong'),
('a0a6b910d091', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('a0a6b910d091', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('p1', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest'),
('p2', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest'),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest');

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('c889ec62b7ff-w0', 'c889ec62b7ff', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:23:21.133000'),
('ce1e7fa4e84e-w0', 'ce1e7fa4e84e', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:23:21.527000'),
('1e979943f2d2-w0', '1e979943f2d2', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:23:22.144000'),
('7aac32aa8be7-w0', '7aac32aa8be7', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 17:23:22.807000'),
('3dde80e32cfd-w0', '3dde80e32cfd', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('a0a6b910d091-w0', 'a0a6b910d091', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '65bc9116b080a1f7', 'alpha/12/1.00', '2026-01-02 17:25:23.951000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('c889ec62b7ff-w0', 1, 'e986a5e86058e4cd', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:23:20.956000', '2026-01-02 17:23:21.144000'),
('ce1e7fa4e84e-w0', 1, '86d3cf6c7a973d96', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:23:21.472000', '2026-01-02 17:23:21.528000'),
('1e979943f2d2-w0', 1, '35d22b0c1a20f91d', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:23:21.986000', '2026-01-02 17:23:22.145000'),
('7aac32aa8be7-w0', 1, '6edfc03eee739bec', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 17:23:22.452000', '2026-01-02 17:23:22.452000'),
('7aac32aa8be7-w0', 2, 'f7051d0dcfb567c5', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 17:23:22.662000', '2026-01-02 17:23:22.808000'),
('3dde80e32cfd-w0', 1, 'c57bf5147c132719', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 17:23:22.977000', '2026-01-02 17:23:22.977000'),
('3dde80e32cfd-w0', 2, '151344adabb72a61', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 17:23:23.243000', '2026-01-02 17:23:23.317000'),
('3dde80e32cfd-w0', 3, '43fefe77e43d63a3', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:23:23.350000', '2026-01-02 17:23:23.424000'),
('a0a6b910d091-w0', 1, 'f7969dc43ed06865', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:23:23.465000', '2026-01-02 17:23:23.536000'),
('a0a6b910d091-w0', 2, 'cb5fee8d1d755ce8', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:23:23.561000', '2026-01-02 17:23:23.585000'),
('p2-w0', 1, '65bc9116b080a1f7', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 17:23:23.952000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('e52e30396b22', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:23:21.692000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for) VALUES
('c889ec62b7ff-w0r0', 1, '7aac32aa8be7', '7aac32aa8be7-w0', NULL, 0, 3, 1, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL),
('c889ec62b7ff-w0r1', 2, 'c889ec62b7ff', 'c889ec62b7ff-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL),
('ce1e7fa4e84e-w0r0', 1, 'ce1e7fa4e84e', 'ce1e7fa4e84e-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL),
('e52e30396b22.9', 1, NULL, NULL, 'e52e30396b22', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL),
('1e979943f2d2-w0r0', 1, '3dde80e32cfd', '3dde80e32cfd-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]'),
('c889ec62b7ff-w0r0.3', 1, 'c889ec62b7ff', 'c889ec62b7ff-w0', NULL, 3, 6, 0, 'SETTLED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL),
('a0a6b910d091-w0r0', 2, 'a0a6b910d091', 'a0a6b910d091-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]'),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:23:21.249000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:23:21.249000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:23:21.589000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:23:22.281000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 17:23:22.856000', 0, 12, 8);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:23:20.563000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:23:20.589000', 'orders', 'ledger', 'table', 'raw.orders', '8033edf1-0045-4f9f-8a78-9b3a9d8d0871'),
(3, '2026-01-02 17:23:20.724000', 'orders', 'worker-1', 'plan', 'c889ec62b7ff', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:23:20.958000', 'orders', 'alpha/1/1.00', 'claim', 'c889ec62b7ff-w0', 'attempt e986a5e86058e4cd, fence 1'),
(5, '2026-01-02 17:23:21.075000', 'orders', 'e986a5e86058e4cd', 'stage', 'c889ec62b7ff-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:23:21.122000', 'orders', 'e986a5e86058e4cd', 'publish', 'c889ec62b7ff-w0', 'attempt e986a5e86058e4cd'),
(7, '2026-01-02 17:23:21.169000', 'orders', 'e986a5e86058e4cd', 'settle', 'c889ec62b7ff-w0', 'attempt e986a5e86058e4cd: 2 ranges, 12 rows'),
(8, '2026-01-02 17:23:21.271000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:23:21.445000', 'orders', 'worker-2', 'plan', 'ce1e7fa4e84e', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:23:21.472000', 'orders', 'alpha/2/1.00', 'claim', 'ce1e7fa4e84e-w0', 'attempt 86d3cf6c7a973d96, fence 1'),
(11, '2026-01-02 17:23:21.511000', 'orders', '86d3cf6c7a973d96', 'stage', 'ce1e7fa4e84e-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:23:21.525000', 'orders', '86d3cf6c7a973d96', 'publish', 'ce1e7fa4e84e-w0', 'attempt 86d3cf6c7a973d96'),
(13, '2026-01-02 17:23:21.530000', 'orders', '86d3cf6c7a973d96', 'settle', 'ce1e7fa4e84e-w0', 'attempt 86d3cf6c7a973d96: 1 ranges, 0 rows'),
(14, '2026-01-02 17:23:21.590000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:23:21.722000', 'orders', 'worker-3', 'skip', 'e52e30396b22', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:23:21.895000', 'orders', 'worker-4', 'plan', '1e979943f2d2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:23:21.994000', 'orders', 'alpha/4/1.00', 'claim', '1e979943f2d2-w0', 'attempt 35d22b0c1a20f91d, fence 1'),
(18, '2026-01-02 17:23:22.097000', 'orders', '35d22b0c1a20f91d', 'stage', '1e979943f2d2-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:23:22.117000', 'orders', '35d22b0c1a20f91d', 'publish', '1e979943f2d2-w0', 'attempt 35d22b0c1a20f91d'),
(20, '2026-01-02 17:23:22.167000', 'orders', '35d22b0c1a20f91d', 'settle', '1e979943f2d2-w0', 'attempt 35d22b0c1a20f91d: 1 ranges, 2 rows'),
(21, '2026-01-02 17:23:22.281000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:23:22.534000', 'orders', 'worker-5', 'reopen', '7aac32aa8be7', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 17:23:22.688000', 'orders', 'alpha/6/1.00', 'claim', '7aac32aa8be7-w0', 'attempt f7051d0dcfb567c5, fence 2'),
(24, '2026-01-02 17:23:22.757000', 'orders', 'f7051d0dcfb567c5', 'stage', '7aac32aa8be7-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 17:23:22.770000', 'orders', 'f7051d0dcfb567c5', 'publish', '7aac32aa8be7-w0', 'attempt f7051d0dcfb567c5'),
(26, '2026-01-02 17:23:22.809000', 'orders', 'f7051d0dcfb567c5', 'settle', '7aac32aa8be7-w0', 'attempt f7051d0dcfb567c5: 1 ranges, 3 rows'),
(27, '2026-01-02 17:23:22.856000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 17:23:22.990000', 'orders', 'worker-7', 'reopen', '3dde80e32cfd', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 17:23:23.166000', 'orders', 'worker-8', 'plan', 'a0a6b910d091', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 17:23:23.245000', 'orders', 'alpha/8/1.00', 'claim', '3dde80e32cfd-w0', 'attempt 151344adabb72a61, fence 2'),
(31, '2026-01-02 17:23:23.318000', 'orders', '151344adabb72a61', 'end', '3dde80e32cfd-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 17:23:23.372000', 'orders', 'alpha/8/1.00', 'claim', '3dde80e32cfd-w0', 'attempt 43fefe77e43d63a3, fence 3'),
(33, '2026-01-02 17:23:23.425000', 'orders', 'worker-8', 'take', '3dde80e32cfd-w0', '1e979943f2d2-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 17:23:23.466000', 'orders', 'alpha/8/1.00', 'claim', 'a0a6b910d091-w0', 'attempt f7969dc43ed06865, fence 1'),
(35, '2026-01-02 17:23:23.537000', 'orders', 'f7969dc43ed06865', 'end', 'a0a6b910d091-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 17:23:23.562000', 'orders', 'alpha/8/1.00', 'claim', 'a0a6b910d091-w0', 'attempt cb5fee8d1d755ce8, fence 2'),
(37, '2026-01-02 17:23:23.585000', 'orders', 'worker-8', 'take', 'a0a6b910d091-w0', 'a0a6b910d091-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 17:23:23.740000', 'orders', 'worker-9', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 17:23:23.809000', 'orders', 'worker-10', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 17:23:23.914000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 17:23:23.953000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt 65bc9116b080a1f7, fence 1'),
(42, '2026-01-02 17:23:24.079000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 17:23:24.184000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
