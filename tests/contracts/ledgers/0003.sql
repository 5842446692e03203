INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', 'e8e2f612ae22989ec8f94858e766a916');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd889d222ac644764', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:23:04.464000'),
('orders', 2, 'd29dfdbafbbb04cf', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:23:06.810000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', 'a54df16f-18a2-4338-b2b0-79323638bb6c');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0);

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-01 00:00:00.000000', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, 'dbae2f2b7587', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:04.545000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, 'fc834d1f9a98', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:05.014000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}'),
(3, 'cc8def638467', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:05.392000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.1}'),
(4, 'e67b2d26c6b6', 'orders', 1, '2026-01-02 17:23:05.664000', '2026-01-02 17:23:05.664000', 'worker-5', '{}'),
(5, 'd3afe6a29a7d', 'orders', 1, '2026-01-02 17:23:05.999000', '2026-01-02 17:23:05.999000', 'worker-7', '{}'),
(6, '8b6ffc576af2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:06.121000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.7}'),
(7, 'p1', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:06.557000', 'worker-9', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}'),
(8, 'p2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:06.705000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}'),
(9, 'p3', 'orders', 2, '2026-01-01 00:00:00.000000', '2026-01-02 17:23:06.846000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason) VALUES
('dbae2f2b7587', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('dbae2f2b7587', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('fc834d1f9a98', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('fc834d1f9a98', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('cc8def638467', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('cc8def638467', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('e67b2d26c6b6', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong'),
('d3afe6a29a7d', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong'),
('8b6ffc576af2', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('8b6ffc576af2', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('p1', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest'),
('p2', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest'),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest');

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('dbae2f2b7587-w0', 'dbae2f2b7587', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:23:04.849000'),
('fc834d1f9a98-w0', 'fc834d1f9a98', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:23:05.120000'),
('cc8def638467-w0', 'cc8def638467', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:23:05.567000'),
('e67b2d26c6b6-w0', 'e67b2d26c6b6', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 17:23:05.919000'),
('d3afe6a29a7d-w0', 'd3afe6a29a7d', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('8b6ffc576af2-w0', '8b6ffc576af2', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '9bb46296f0507d70', 'alpha/12/1.00', '2026-01-02 17:25:06.737000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('dbae2f2b7587-w0', 1, 'f573418c074deaac', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:23:04.737000', '2026-01-02 17:23:04.856000'),
('fc834d1f9a98-w0', 1, 'e0376cdda8c8dd70', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:23:05.046000', '2026-01-02 17:23:05.121000'),
('cc8def638467-w0', 1, 'b84a0b2e363aff31', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:23:05.458000', '2026-01-02 17:23:05.571000'),
('e67b2d26c6b6-w0', 1, '1fc89ca303b25475', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 17:23:05.677000', '2026-01-02 17:23:05.677000'),
('e67b2d26c6b6-w0', 2, '2b2109246be8b2fa', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 17:23:05.844000', '2026-01-02 17:23:05.920000'),
('d3afe6a29a7d-w0', 1, '5b94a300d612e25a', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 17:23:06.001000', '2026-01-02 17:23:06.001000'),
('d3afe6a29a7d-w0', 2, '1db02ffc8fb0a8e1', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 17:23:06.175000', '2026-01-02 17:23:06.226000'),
('d3afe6a29a7d-w0', 3, '670f489beadfd297', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:23:06.257000', '2026-01-02 17:23:06.312000'),
('8b6ffc576af2-w0', 1, 'fdda6b3e0656e207', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:23:06.352000', '2026-01-02 17:23:06.410000'),
('8b6ffc576af2-w0', 2, '295e3f768fdf9c52', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:23:06.443000', '2026-01-02 17:23:06.465000'),
('p2-w0', 1, '9bb46296f0507d70', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 17:23:06.738000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('64f2d8a4fdf6', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:23:05.259000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted) VALUES
('dbae2f2b7587-w0r0', 1, 'e67b2d26c6b6', 'e67b2d26c6b6-w0', NULL, 0, 3, 1, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE),
('dbae2f2b7587-w0r1', 2, 'dbae2f2b7587', 'dbae2f2b7587-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE),
('fc834d1f9a98-w0r0', 1, 'fc834d1f9a98', 'fc834d1f9a98-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE),
('64f2d8a4fdf6.9', 1, NULL, NULL, '64f2d8a4fdf6', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE),
('cc8def638467-w0r0', 1, 'd3afe6a29a7d', 'd3afe6a29a7d-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE),
('dbae2f2b7587-w0r0.3', 1, 'dbae2f2b7587', 'dbae2f2b7587-w0', NULL, 3, 6, 0, 'SETTLED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE),
('8b6ffc576af2-w0r0', 2, '8b6ffc576af2', '8b6ffc576af2-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:23:04.913000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:23:04.913000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:23:05.170000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:23:05.609000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 17:23:05.956000', 0, 12, 8);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:23:04.473000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:23:04.493000', 'orders', 'ledger', 'table', 'raw.orders', 'a54df16f-18a2-4338-b2b0-79323638bb6c'),
(3, '2026-01-02 17:23:04.620000', 'orders', 'worker-1', 'plan', 'dbae2f2b7587', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:23:04.747000', 'orders', 'alpha/1/1.00', 'claim', 'dbae2f2b7587-w0', 'attempt f573418c074deaac, fence 1'),
(5, '2026-01-02 17:23:04.810000', 'orders', 'f573418c074deaac', 'stage', 'dbae2f2b7587-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:23:04.835000', 'orders', 'f573418c074deaac', 'publish', 'dbae2f2b7587-w0', 'attempt f573418c074deaac'),
(7, '2026-01-02 17:23:04.869000', 'orders', 'f573418c074deaac', 'settle', 'dbae2f2b7587-w0', 'attempt f573418c074deaac: 2 ranges, 12 rows'),
(8, '2026-01-02 17:23:04.927000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:23:05.026000', 'orders', 'worker-2', 'plan', 'fc834d1f9a98', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:23:05.053000', 'orders', 'alpha/2/1.00', 'claim', 'fc834d1f9a98-w0', 'attempt e0376cdda8c8dd70, fence 1'),
(11, '2026-01-02 17:23:05.088000', 'orders', 'e0376cdda8c8dd70', 'stage', 'fc834d1f9a98-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:23:05.112000', 'orders', 'e0376cdda8c8dd70', 'publish', 'fc834d1f9a98-w0', 'attempt e0376cdda8c8dd70'),
(13, '2026-01-02 17:23:05.136000', 'orders', 'e0376cdda8c8dd70', 'settle', 'fc834d1f9a98-w0', 'attempt e0376cdda8c8dd70: 1 ranges, 0 rows'),
(14, '2026-01-02 17:23:05.184000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:23:05.300000', 'orders', 'worker-3', 'skip', '64f2d8a4fdf6', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:23:05.410000', 'orders', 'worker-4', 'plan', 'cc8def638467', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:23:05.479000', 'orders', 'alpha/4/1.00', 'claim', 'cc8def638467-w0', 'attempt b84a0b2e363aff31, fence 1'),
(18, '2026-01-02 17:23:05.535000', 'orders', 'b84a0b2e363aff31', 'stage', 'cc8def638467-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:23:05.556000', 'orders', 'b84a0b2e363aff31', 'publish', 'cc8def638467-w0', 'attempt b84a0b2e363aff31'),
(20, '2026-01-02 17:23:05.578000', 'orders', 'b84a0b2e363aff31', 'settle', 'cc8def638467-w0', 'attempt b84a0b2e363aff31: 1 ranges, 2 rows'),
(21, '2026-01-02 17:23:05.610000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:23:05.753000', 'orders', 'worker-5', 'reopen', 'e67b2d26c6b6', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 17:23:05.852000', 'orders', 'alpha/6/1.00', 'claim', 'e67b2d26c6b6-w0', 'attempt 2b2109246be8b2fa, fence 2'),
(24, '2026-01-02 17:23:05.893000', 'orders', '2b2109246be8b2fa', 'stage', 'e67b2d26c6b6-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 17:23:05.906000', 'orders', '2b2109246be8b2fa', 'publish', 'e67b2d26c6b6-w0', 'attempt 2b2109246be8b2fa'),
(26, '2026-01-02 17:23:05.922000', 'orders', '2b2109246be8b2fa', 'settle', 'e67b2d26c6b6-w0', 'attempt 2b2109246be8b2fa: 1 ranges, 3 rows'),
(27, '2026-01-02 17:23:05.956000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 17:23:06.021000', 'orders', 'worker-7', 'reopen', 'd3afe6a29a7d', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 17:23:06.137000', 'orders', 'worker-8', 'plan', '8b6ffc576af2', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 17:23:06.176000', 'orders', 'alpha/8/1.00', 'claim', 'd3afe6a29a7d-w0', 'attempt 1db02ffc8fb0a8e1, fence 2'),
(31, '2026-01-02 17:23:06.237000', 'orders', '1db02ffc8fb0a8e1', 'end', 'd3afe6a29a7d-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 17:23:06.258000', 'orders', 'alpha/8/1.00', 'claim', 'd3afe6a29a7d-w0', 'attempt 670f489beadfd297, fence 3'),
(33, '2026-01-02 17:23:06.313000', 'orders', 'worker-8', 'take', 'd3afe6a29a7d-w0', 'cc8def638467-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 17:23:06.357000', 'orders', 'alpha/8/1.00', 'claim', '8b6ffc576af2-w0', 'attempt fdda6b3e0656e207, fence 1'),
(35, '2026-01-02 17:23:06.412000', 'orders', 'fdda6b3e0656e207', 'end', '8b6ffc576af2-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 17:23:06.444000', 'orders', 'alpha/8/1.00', 'claim', '8b6ffc576af2-w0', 'attempt 295e3f768fdf9c52, fence 2'),
(37, '2026-01-02 17:23:06.465000', 'orders', 'worker-8', 'take', '8b6ffc576af2-w0', '8b6ffc576af2-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 17:23:06.576000', 'orders', 'worker-9', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 17:23:06.617000', 'orders', 'worker-10', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 17:23:06.724000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 17:23:06.746000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt 9bb46296f0507d70, fence 1'),
(42, '2026-01-02 17:23:06.813000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 17:23:06.903000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
