INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '8e3da875754aa206822bb8caa090d404');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd889d222ac644764', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:23:12.087000'),
('orders', 2, 'd29dfdbafbbb04cf', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:23:15.471000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', 'e525bfac-4b59-4e6b-8a47-9102bf6ee579');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0);

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-01 00:00:00.000000', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, '72d20e2990d0', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:12.191000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, '14627e05c9d6', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:12.953000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}'),
(3, '38b1b8516959', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:13.488000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.1}'),
(4, '92542c2bb300', 'orders', 1, '2026-01-02 17:23:13.782000', '2026-01-02 17:23:13.782000', 'worker-5', '{}'),
(5, '8fcdbf242aa0', 'orders', 1, '2026-01-02 17:23:14.294000', '2026-01-02 17:23:14.294000', 'worker-7', '{}'),
(6, 'c903401d3ffe', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:14.517000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.8}'),
(7, 'p1', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:15.134000', 'worker-9', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(8, 'p2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:15.341000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(9, 'p3', 'orders', 2, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:15.503000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.8}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason) VALUES
('72d20e2990d0', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('72d20e2990d0', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('14627e05c9d6', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('14627e05c9d6', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('38b1b8516959', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('38b1b8516959', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('92542c2bb300', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong'),
('8fcdbf242aa0', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong'),
('c903401d3ffe', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('c903401d3ffe', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('p1', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest'),
('p2', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest'),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest');

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('72d20e2990d0-w0', '72d20e2990d0', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:23:12.660000'),
('14627e05c9d6-w0', '14627e05c9d6', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:23:13.196000'),
('38b1b8516959-w0', '38b1b8516959', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:23:13.654000'),
('92542c2bb300-w0', '92542c2bb300', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 17:23:14.167000'),
('8fcdbf242aa0-w0', '8fcdbf242aa0', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('c903401d3ffe-w0', 'c903401d3ffe', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, 'd3f7e3f04d994ade', 'alpha/12/1.00', '2026-01-02 17:25:15.381000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('72d20e2990d0-w0', 1, '09fe6810b5e2cdbc', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:23:12.486000', '2026-01-02 17:23:12.662000'),
('14627e05c9d6-w0', 1, 'c7827b482466416d', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:23:13.046000', '2026-01-02 17:23:13.197000'),
('38b1b8516959-w0', 1, 'c46c47cf27b7a992', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:23:13.548000', '2026-01-02 17:23:13.654000'),
('92542c2bb300-w0', 1, '86a9eb85439ad4bb', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 17:23:13.827000', '2026-01-02 17:23:13.827000'),
('92542c2bb300-w0', 2, 'a7df857b8f65c290', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 17:23:14.055000', '2026-01-02 17:23:14.168000'),
('8fcdbf242aa0-w0', 1, 'c301afea6806538a', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 17:23:14.311000', '2026-01-02 17:23:14.311000'),
('8fcdbf242aa0-w0', 2, '8d87d7f49a6a1de4', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 17:23:14.601000', '2026-01-02 17:23:14.686000'),
('8fcdbf242aa0-w0', 3, '1f0c4bfd4e0e23de', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:23:14.737000', '2026-01-02 17:23:14.781000'),
('c903401d3ffe-w0', 1, '14bf6cf177533ae8', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:23:14.847000', '2026-01-02 17:23:14.947000'),
('c903401d3ffe-w0', 2, 'cf9b687fa8e34639', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:23:14.976000', '2026-01-02 17:23:15.026000'),
('p2-w0', 1, 'd3f7e3f04d994ade', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 17:23:15.382000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('4add5df9f6d7', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:23:13.331000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for) VALUES
('72d20e2990d0-w0r0', 1, '92542c2bb300', '92542c2bb300-w0', NULL, 0, 3, 1, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL),
('72d20e2990d0-w0r1', 2, '72d20e2990d0', '72d20e2990d0-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL),
('14627e05c9d6-w0r0', 1, '14627e05c9d6', '14627e05c9d6-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL),
('4add5df9f6d7.9', 1, NULL, NULL, '4add5df9f6d7', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL),
('38b1b8516959-w0r0', 1, '8fcdbf242aa0', '8fcdbf242aa0-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]'),
('72d20e2990d0-w0r0.3', 1, '72d20e2990d0', '72d20e2990d0-w0', NULL, 3, 6, 0, 'SETTLED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL),
('c903401d3ffe-w0r0', 2, 'c903401d3ffe', 'c903401d3ffe-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]'),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:23:12.774000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:23:12.774000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:23:13.264000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:23:13.706000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 17:23:14.220000', 0, 12, 8);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:23:12.088000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:23:12.121000', 'orders', 'ledger', 'table', 'raw.orders', 'e525bfac-4b59-4e6b-8a47-9102bf6ee579'),
(3, '2026-01-02 17:23:12.317000', 'orders', 'worker-1', 'plan', '72d20e2990d0', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:23:12.492000', 'orders', 'alpha/1/1.00', 'claim', '72d20e2990d0-w0', 'attempt 09fe6810b5e2cdbc, fence 1'),
(5, '2026-01-02 17:23:12.589000', 'orders', '09fe6810b5e2cdbc', 'stage', '72d20e2990d0-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:23:12.636000', 'orders', '09fe6810b5e2cdbc', 'publish', '72d20e2990d0-w0', 'attempt 09fe6810b5e2cdbc'),
(7, '2026-01-02 17:23:12.699000', 'orders', '09fe6810b5e2cdbc', 'settle', '72d20e2990d0-w0', 'attempt 09fe6810b5e2cdbc: 2 ranges, 12 rows'),
(8, '2026-01-02 17:23:12.798000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:23:12.968000', 'orders', 'worker-2', 'plan', '14627e05c9d6', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:23:13.059000', 'orders', 'alpha/2/1.00', 'claim', '14627e05c9d6-w0', 'attempt c7827b482466416d, fence 1'),
(11, '2026-01-02 17:23:13.156000', 'orders', 'c7827b482466416d', 'stage', '14627e05c9d6-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:23:13.170000', 'orders', 'c7827b482466416d', 'publish', '14627e05c9d6-w0', 'attempt c7827b482466416d'),
(13, '2026-01-02 17:23:13.198000', 'orders', 'c7827b482466416d', 'settle', '14627e05c9d6-w0', 'attempt c7827b482466416d: 1 ranges, 0 rows'),
(14, '2026-01-02 17:23:13.264000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:23:13.369000', 'orders', 'worker-3', 'skip', '4add5df9f6d7', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:23:13.490000', 'orders', 'worker-4', 'plan', '38b1b8516959', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:23:13.549000', 'orders', 'alpha/4/1.00', 'claim', '38b1b8516959-w0', 'attempt c46c47cf27b7a992, fence 1'),
(18, '2026-01-02 17:23:13.620000', 'orders', 'c46c47cf27b7a992', 'stage', '38b1b8516959-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:23:13.651000', 'orders', 'c46c47cf27b7a992', 'publish', '38b1b8516959-w0', 'attempt c46c47cf27b7a992'),
(20, '2026-01-02 17:23:13.675000', 'orders', 'c46c47cf27b7a992', 'settle', '38b1b8516959-w0', 'attempt c46c47cf27b7a992: 1 ranges, 2 rows'),
(21, '2026-01-02 17:23:13.713000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:23:13.932000', 'orders', 'worker-5', 'reopen', '92542c2bb300', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 17:23:14.055000', 'orders', 'alpha/6/1.00', 'claim', '92542c2bb300-w0', 'attempt a7df857b8f65c290, fence 2'),
(24, '2026-01-02 17:23:14.112000', 'orders', 'a7df857b8f65c290', 'stage', '92542c2bb300-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 17:23:14.151000', 'orders', 'a7df857b8f65c290', 'publish', '92542c2bb300-w0', 'attempt a7df857b8f65c290'),
(26, '2026-01-02 17:23:14.170000', 'orders', 'a7df857b8f65c290', 'settle', '92542c2bb300-w0', 'attempt a7df857b8f65c290: 1 ranges, 3 rows'),
(27, '2026-01-02 17:23:14.221000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 17:23:14.339000', 'orders', 'worker-7', 'reopen', '8fcdbf242aa0', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 17:23:14.532000', 'orders', 'worker-8', 'plan', 'c903401d3ffe', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 17:23:14.602000', 'orders', 'alpha/8/1.00', 'claim', '8fcdbf242aa0-w0', 'attempt 8d87d7f49a6a1de4, fence 2'),
(31, '2026-01-02 17:23:14.686000', 'orders', '8d87d7f49a6a1de4', 'end', '8fcdbf242aa0-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 17:23:14.743000', 'orders', 'alpha/8/1.00', 'claim', '8fcdbf242aa0-w0', 'attempt 1f0c4bfd4e0e23de, fence 3'),
(33, '2026-01-02 17:23:14.781000', 'orders', 'worker-8', 'take', '8fcdbf242aa0-w0', '38b1b8516959-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 17:23:14.852000', 'orders', 'alpha/8/1.00', 'claim', 'c903401d3ffe-w0', 'attempt 14bf6cf177533ae8, fence 1'),
(35, '2026-01-02 17:23:14.948000', 'orders', '14bf6cf177533ae8', 'end', 'c903401d3ffe-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 17:23:14.992000', 'orders', 'alpha/8/1.00', 'claim', 'c903401d3ffe-w0', 'attempt cf9b687fa8e34639, fence 2'),
(37, '2026-01-02 17:23:15.026000', 'orders', 'worker-8', 'take', 'c903401d3ffe-w0', 'c903401d3ffe-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 17:23:15.158000', 'orders', 'worker-9', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 17:23:15.247000', 'orders', 'worker-10', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 17:23:15.357000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 17:23:15.382000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt d3f7e3f04d994ade, fence 1'),
(42, '2026-01-02 17:23:15.472000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 17:23:15.505000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
