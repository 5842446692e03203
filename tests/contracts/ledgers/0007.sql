INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', 'f24f32b5d12dfaa8074fb254935f6950');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd889d222ac644764', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:27:14.249000'),
('orders', 2, 'd29dfdbafbbb04cf', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:27:17.770000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '6c71438c-09b7-4bd8-9202-da0c41bae25f');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 17:27:13.318068'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 17:27:13.318068');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 17:27:13.318068', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, '4bed9370e109', 'orders', 1, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:14.358000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, '7f35160f4141', 'orders', 1, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:15.118000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}'),
(3, '851897959f28', 'orders', 1, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:15.721000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.1}'),
(4, 'fdeb07eb5991', 'orders', 1, '2026-01-02 17:27:16.145000', '2026-01-02 17:27:16.145000', 'worker-5', '{}'),
(5, '15a93fa3a28c', 'orders', 1, '2026-01-02 17:27:16.704000', '2026-01-02 17:27:16.704000', 'worker-7', '{}'),
(6, 'e789aa96dfe3', 'orders', 1, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:16.881000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.8}'),
(7, 'p1', 'orders', 1, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:17.430000', 'worker-9', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(8, 'p2', 'orders', 1, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:17.598000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}'),
(9, 'p3', 'orders', 2, '2026-01-02 17:27:13.318068', '2026-01-02 17:27:17.823000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.8}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('4bed9370e109', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('4bed9370e109', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('7f35160f4141', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('851897959f28', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('fdeb07eb5991', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('15a93fa3a28c', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('e789aa96dfe3', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('4bed9370e109-w0', '4bed9370e109', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:27:14.833000'),
('7f35160f4141-w0', '7f35160f4141', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:27:15.362000'),
('851897959f28-w0', '851897959f28', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:27:15.973000'),
('fdeb07eb5991-w0', 'fdeb07eb5991', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 17:27:16.553000'),
('15a93fa3a28c-w0', '15a93fa3a28c', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('e789aa96dfe3-w0', 'e789aa96dfe3', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, 'd6f43e1e4a8820d6', 'alpha/12/1.00', '2026-01-02 17:29:17.658000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('4bed9370e109-w0', 1, '00593235593c6e32', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:27:14.680000', '2026-01-02 17:27:14.856000'),
('7f35160f4141-w0', 1, 'e0e50baa51fe7633', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:27:15.231000', '2026-01-02 17:27:15.372000'),
('851897959f28-w0', 1, '47b17f85436103dd', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:27:15.794000', '2026-01-02 17:27:15.975000'),
('fdeb07eb5991-w0', 1, '5cfafe709c692da6', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 17:27:16.176000', '2026-01-02 17:27:16.176000'),
('fdeb07eb5991-w0', 2, 'da2c652d76619694', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 17:27:16.427000', '2026-01-02 17:27:16.560000'),
('15a93fa3a28c-w0', 1, 'e19274a0ea79c8a9', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 17:27:16.705000', '2026-01-02 17:27:16.705000'),
('15a93fa3a28c-w0', 2, 'cb9a81f0a4189fc3', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 17:27:16.954000', '2026-01-02 17:27:17.043000'),
('15a93fa3a28c-w0', 3, 'fd51de86ece2201c', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:27:17.058000', '2026-01-02 17:27:17.143000'),
('e789aa96dfe3-w0', 1, '984c26a0b7e4f4ad', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:27:17.177000', '2026-01-02 17:27:17.268000'),
('e789aa96dfe3-w0', 2, '3e4877c3437108fa', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:27:17.298000', '2026-01-02 17:27:17.352000'),
('p2-w0', 1, 'd6f43e1e4a8820d6', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 17:27:17.683000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('c704bda4605b', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:27:15.527000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('4bed9370e109-w0r0', 1, 'fdeb07eb5991', 'fdeb07eb5991-w0', NULL, 0, 3, 1, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('4bed9370e109-w0r1', 2, '4bed9370e109', '4bed9370e109-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('7f35160f4141-w0r0', 1, '7f35160f4141', '7f35160f4141-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('c704bda4605b.9', 1, NULL, NULL, 'c704bda4605b', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('851897959f28-w0r0', 1, '15a93fa3a28c', '15a93fa3a28c-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('4bed9370e109-w0r0.3', 1, '4bed9370e109', '4bed9370e109-w0', NULL, 3, 6, 0, 'SETTLED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('e789aa96dfe3-w0r0', 2, 'e789aa96dfe3', 'e789aa96dfe3-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:27:14.957000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:27:14.957000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:27:15.430000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:27:16.030000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 17:27:16.609000', 0, 12, 8);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:27:14.249000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:27:14.288000', 'orders', 'ledger', 'table', 'raw.orders', '6c71438c-09b7-4bd8-9202-da0c41bae25f'),
(3, '2026-01-02 17:27:14.511000', 'orders', 'worker-1', 'plan', '4bed9370e109', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:27:14.685000', 'orders', 'alpha/1/1.00', 'claim', '4bed9370e109-w0', 'attempt 00593235593c6e32, fence 1'),
(5, '2026-01-02 17:27:14.775000', 'orders', '00593235593c6e32', 'stage', '4bed9370e109-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:27:14.801000', 'orders', '00593235593c6e32', 'publish', '4bed9370e109-w0', 'attempt 00593235593c6e32'),
(7, '2026-01-02 17:27:14.891000', 'orders', '00593235593c6e32', 'settle', '4bed9370e109-w0', 'attempt 00593235593c6e32: 2 ranges, 12 rows'),
(8, '2026-01-02 17:27:14.958000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:27:15.149000', 'orders', 'worker-2', 'plan', '7f35160f4141', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:27:15.233000', 'orders', 'alpha/2/1.00', 'claim', '7f35160f4141-w0', 'attempt e0e50baa51fe7633, fence 1'),
(11, '2026-01-02 17:27:15.308000', 'orders', 'e0e50baa51fe7633', 'stage', '7f35160f4141-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:27:15.343000', 'orders', 'e0e50baa51fe7633', 'publish', '7f35160f4141-w0', 'attempt e0e50baa51fe7633'),
(13, '2026-01-02 17:27:15.374000', 'orders', 'e0e50baa51fe7633', 'settle', '7f35160f4141-w0', 'attempt e0e50baa51fe7633: 1 ranges, 0 rows'),
(14, '2026-01-02 17:27:15.451000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:27:15.561000', 'orders', 'worker-3', 'skip', 'c704bda4605b', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:27:15.744000', 'orders', 'worker-4', 'plan', '851897959f28', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:27:15.794000', 'orders', 'alpha/4/1.00', 'claim', '851897959f28-w0', 'attempt 47b17f85436103dd, fence 1'),
(18, '2026-01-02 17:27:15.900000', 'orders', '47b17f85436103dd', 'stage', '851897959f28-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:27:15.922000', 'orders', '47b17f85436103dd', 'publish', '851897959f28-w0', 'attempt 47b17f85436103dd'),
(20, '2026-01-02 17:27:15.977000', 'orders', '47b17f85436103dd', 'settle', '851897959f28-w0', 'attempt 47b17f85436103dd: 1 ranges, 2 rows'),
(21, '2026-01-02 17:27:16.030000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:27:16.259000', 'orders', 'worker-5', 'reopen', 'fdeb07eb5991', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 17:27:16.428000', 'orders', 'alpha/6/1.00', 'claim', 'fdeb07eb5991-w0', 'attempt da2c652d76619694, fence 2'),
(24, '2026-01-02 17:27:16.505000', 'orders', 'da2c652d76619694', 'stage', 'fdeb07eb5991-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 17:27:16.530000', 'orders', 'da2c652d76619694', 'publish', 'fdeb07eb5991-w0', 'attempt da2c652d76619694'),
(26, '2026-01-02 17:27:16.562000', 'orders', 'da2c652d76619694', 'settle', 'fdeb07eb5991-w0', 'attempt da2c652d76619694: 1 ranges, 3 rows'),
(27, '2026-01-02 17:27:16.610000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 17:27:16.737000', 'orders', 'worker-7', 'reopen', '15a93fa3a28c', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 17:27:16.905000', 'orders', 'worker-8', 'plan', 'e789aa96dfe3', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 17:27:16.971000', 'orders', 'alpha/8/1.00', 'claim', '15a93fa3a28c-w0', 'attempt cb9a81f0a4189fc3, fence 2'),
(31, '2026-01-02 17:27:17.043000', 'orders', 'cb9a81f0a4189fc3', 'end', '15a93fa3a28c-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 17:27:17.058000', 'orders', 'alpha/8/1.00', 'claim', '15a93fa3a28c-w0', 'attempt fd51de86ece2201c, fence 3'),
(33, '2026-01-02 17:27:17.144000', 'orders', 'worker-8', 'take', '15a93fa3a28c-w0', '851897959f28-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 17:27:17.178000', 'orders', 'alpha/8/1.00', 'claim', 'e789aa96dfe3-w0', 'attempt 984c26a0b7e4f4ad, fence 1'),
(35, '2026-01-02 17:27:17.269000', 'orders', '984c26a0b7e4f4ad', 'end', 'e789aa96dfe3-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 17:27:17.299000', 'orders', 'alpha/8/1.00', 'claim', 'e789aa96dfe3-w0', 'attempt 3e4877c3437108fa, fence 2'),
(37, '2026-01-02 17:27:17.352000', 'orders', 'worker-8', 'take', 'e789aa96dfe3-w0', 'e789aa96dfe3-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 17:27:17.457000', 'orders', 'worker-9', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 17:27:17.504000', 'orders', 'worker-10', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 17:27:17.641000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 17:27:17.684000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt d6f43e1e4a8820d6, fence 1'),
(42, '2026-01-02 17:27:17.770000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 17:27:17.848000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
