INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '7cc27b2f1b3b9d52384fe522c4ae9824');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd889d222ac644764', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:24:19.551000'),
('orders', 2, 'd29dfdbafbbb04cf', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:24:22.349000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', 'b82d5866-5f80-4e14-a270-bb75c527f9f4');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 17:24:18.712440'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 17:24:18.712440');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 17:24:18.712440', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, '7d139d820455', 'orders', 1, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:19.648000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, '15a1af2514e6', 'orders', 1, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:20.385000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}'),
(3, 'd365fc181c56', 'orders', 1, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:20.711000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.1}'),
(4, '892920426741', 'orders', 1, '2026-01-02 17:24:20.931000', '2026-01-02 17:24:20.931000', 'worker-5', '{}'),
(5, 'f9d0780f3c8a', 'orders', 1, '2026-01-02 17:24:21.403000', '2026-01-02 17:24:21.403000', 'worker-7', '{}'),
(6, '7be2960e8ae3', 'orders', 1, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:21.527000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.8}'),
(7, 'p1', 'orders', 1, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:22.044000', 'worker-9', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(8, 'p2', 'orders', 1, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:22.228000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(9, 'p3', 'orders', 2, '2026-01-02 17:24:18.712440', '2026-01-02 17:24:22.381000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.8}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('7d139d820455', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('7d139d820455', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('15a1af2514e6', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('d365fc181c56', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('892920426741', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('f9d0780f3c8a', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('7be2960e8ae3', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('7d139d820455-w0', '7d139d820455', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:24:20.073000'),
('15a1af2514e6-w0', '15a1af2514e6', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:24:20.540000'),
('d365fc181c56-w0', 'd365fc181c56', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:24:20.865000'),
('892920426741-w0', '892920426741', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 17:24:21.286000'),
('f9d0780f3c8a-w0', 'f9d0780f3c8a', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('7be2960e8ae3-w0', '7be2960e8ae3', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '43da4ad842949013', 'alpha/12/1.00', '2026-01-02 17:26:22.267000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('7d139d820455-w0', 1, 'd58989a6cdabf810', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:24:19.899000', '2026-01-02 17:24:20.083000'),
('15a1af2514e6-w0', 1, '8dbccfacddc82538', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:24:20.465000', '2026-01-02 17:24:20.541000'),
('d365fc181c56-w0', 1, '2aee18aa578313d0', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:24:20.761000', '2026-01-02 17:24:20.866000'),
('892920426741-w0', 1, '4e79c0365f258eb0', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 17:24:20.933000', '2026-01-02 17:24:20.933000'),
('892920426741-w0', 2, 'd65ee77574ed645a', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 17:24:21.157000', '2026-01-02 17:24:21.294000'),
('f9d0780f3c8a-w0', 1, 'd604b3161be0f599', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 17:24:21.404000', '2026-01-02 17:24:21.404000'),
('f9d0780f3c8a-w0', 2, '32017710c6760817', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 17:24:21.588000', '2026-01-02 17:24:21.658000'),
('f9d0780f3c8a-w0', 3, 'ac88d11d0dd1a579', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:24:21.704000', '2026-01-02 17:24:21.748000'),
('7be2960e8ae3-w0', 1, '501a71057171b900', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:24:21.802000', '2026-01-02 17:24:21.888000'),
('7be2960e8ae3-w0', 2, 'd2f1c056a1e501c4', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:24:21.909000', '2026-01-02 17:24:21.937000'),
('p2-w0', 1, '43da4ad842949013', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 17:24:22.268000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('edda9c22b668', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:24:20.586000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('7d139d820455-w0r0', 1, '892920426741', '892920426741-w0', NULL, 0, 3, 1, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('7d139d820455-w0r1', 2, '7d139d820455', '7d139d820455-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('15a1af2514e6-w0r0', 1, '15a1af2514e6', '15a1af2514e6-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('edda9c22b668.9', 1, NULL, NULL, 'edda9c22b668', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('d365fc181c56-w0r0', 1, 'f9d0780f3c8a', 'f9d0780f3c8a-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('7d139d820455-w0r0.3', 1, '7d139d820455', '7d139d820455-w0', NULL, 3, 6, 0, 'SETTLED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('7be2960e8ae3-w0r0', 2, '7be2960e8ae3', '7be2960e8ae3-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:24:20.203000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:24:20.203000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:24:20.556000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:24:20.889000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 17:24:21.350000', 0, 12, 8);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:24:19.552000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:24:19.578000', 'orders', 'ledger', 'table', 'raw.orders', 'b82d5866-5f80-4e14-a270-bb75c527f9f4'),
(3, '2026-01-02 17:24:19.769000', 'orders', 'worker-1', 'plan', '7d139d820455', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:24:19.901000', 'orders', 'alpha/1/1.00', 'claim', '7d139d820455-w0', 'attempt d58989a6cdabf810, fence 1'),
(5, '2026-01-02 17:24:20.015000', 'orders', 'd58989a6cdabf810', 'stage', '7d139d820455-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:24:20.060000', 'orders', 'd58989a6cdabf810', 'publish', '7d139d820455-w0', 'attempt d58989a6cdabf810'),
(7, '2026-01-02 17:24:20.124000', 'orders', 'd58989a6cdabf810', 'settle', '7d139d820455-w0', 'attempt d58989a6cdabf810: 2 ranges, 12 rows'),
(8, '2026-01-02 17:24:20.205000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:24:20.412000', 'orders', 'worker-2', 'plan', '15a1af2514e6', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:24:20.466000', 'orders', 'alpha/2/1.00', 'claim', '15a1af2514e6-w0', 'attempt 8dbccfacddc82538, fence 1'),
(11, '2026-01-02 17:24:20.530000', 'orders', '8dbccfacddc82538', 'stage', '15a1af2514e6-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:24:20.537000', 'orders', '8dbccfacddc82538', 'publish', '15a1af2514e6-w0', 'attempt 8dbccfacddc82538'),
(13, '2026-01-02 17:24:20.543000', 'orders', '8dbccfacddc82538', 'settle', '15a1af2514e6-w0', 'attempt 8dbccfacddc82538: 1 ranges, 0 rows'),
(14, '2026-01-02 17:24:20.557000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:24:20.594000', 'orders', 'worker-3', 'skip', 'edda9c22b668', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:24:20.714000', 'orders', 'worker-4', 'plan', 'd365fc181c56', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:24:20.762000', 'orders', 'alpha/4/1.00', 'claim', 'd365fc181c56-w0', 'attempt 2aee18aa578313d0, fence 1'),
(18, '2026-01-02 17:24:20.837000', 'orders', '2aee18aa578313d0', 'stage', 'd365fc181c56-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:24:20.851000', 'orders', '2aee18aa578313d0', 'publish', 'd365fc181c56-w0', 'attempt 2aee18aa578313d0'),
(20, '2026-01-02 17:24:20.876000', 'orders', '2aee18aa578313d0', 'settle', 'd365fc181c56-w0', 'attempt 2aee18aa578313d0: 1 ranges, 2 rows'),
(21, '2026-01-02 17:24:20.895000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:24:20.969000', 'orders', 'worker-5', 'reopen', '892920426741', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 17:24:21.158000', 'orders', 'alpha/6/1.00', 'claim', '892920426741-w0', 'attempt d65ee77574ed645a, fence 2'),
(24, '2026-01-02 17:24:21.223000', 'orders', 'd65ee77574ed645a', 'stage', '892920426741-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 17:24:21.272000', 'orders', 'd65ee77574ed645a', 'publish', '892920426741-w0', 'attempt d65ee77574ed645a'),
(26, '2026-01-02 17:24:21.298000', 'orders', 'd65ee77574ed645a', 'settle', '892920426741-w0', 'attempt d65ee77574ed645a: 1 ranges, 3 rows'),
(27, '2026-01-02 17:24:21.359000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 17:24:21.410000', 'orders', 'worker-7', 'reopen', 'f9d0780f3c8a', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 17:24:21.548000', 'orders', 'worker-8', 'plan', '7be2960e8ae3', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 17:24:21.588000', 'orders', 'alpha/8/1.00', 'claim', 'f9d0780f3c8a-w0', 'attempt 32017710c6760817, fence 2'),
(31, '2026-01-02 17:24:21.660000', 'orders', '32017710c6760817', 'end', 'f9d0780f3c8a-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 17:24:21.705000', 'orders', 'alpha/8/1.00', 'claim', 'f9d0780f3c8a-w0', 'attempt ac88d11d0dd1a579, fence 3'),
(33, '2026-01-02 17:24:21.749000', 'orders', 'worker-8', 'take', 'f9d0780f3c8a-w0', 'd365fc181c56-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 17:24:21.814000', 'orders', 'alpha/8/1.00', 'claim', '7be2960e8ae3-w0', 'attempt 501a71057171b900, fence 1'),
(35, '2026-01-02 17:24:21.889000', 'orders', '501a71057171b900', 'end', '7be2960e8ae3-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 17:24:21.909000', 'orders', 'alpha/8/1.00', 'claim', '7be2960e8ae3-w0', 'attempt d2f1c056a1e501c4, fence 2'),
(37, '2026-01-02 17:24:21.940000', 'orders', 'worker-8', 'take', '7be2960e8ae3-w0', '7be2960e8ae3-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 17:24:22.060000', 'orders', 'worker-9', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 17:24:22.100000', 'orders', 'worker-10', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 17:24:22.230000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 17:24:22.269000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt 43da4ad842949013, fence 1'),
(42, '2026-01-02 17:24:22.350000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 17:24:22.396000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
