INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '51db19ab5a40145b4838dba4bc5b0936');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, '22cdbcc0b2b5f1a9', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait_seconds": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait_seconds": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:22:57.337000'),
('orders', 2, '405b6a49b1c442ee', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait_seconds": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait_seconds": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 17:22:59.620000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '1212e568-1d9a-4203-a7f6-1830b4c48d6e');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 12, 11, 17, 0),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0);

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-01 00:00:00.000000', 1);

INSERT INTO kafka_lake_segment (id, stream, start_offset, layout, seal, sealed, declared_at) VALUES
(1, 1, 0, 2, NULL, 0, NULL),
(2, 2, 0, 2, NULL, 0, NULL);

INSERT INTO kafka_lake_plan (number, id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail) VALUES
(1, '228c25e60bdc', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:57.447000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 87, "estimated_seconds": 12.0}'),
(2, 'd850579a8ce8', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:58.078000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 232, "estimated_seconds": 12.0}'),
(3, '99b7cc8be6b0', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:58.595000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 124, "estimated_seconds": 12.0}'),
(4, '957235279d31', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:58.997000', 'worker-5', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 191, "estimated_seconds": 12.1}'),
(5, 'p1', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:59.324000', 'worker-6', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 127, "estimated_seconds": 12.0}'),
(6, 'p2', 'orders', 1, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:59.485000', 'worker-8', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 127, "estimated_seconds": 12.0}'),
(7, 'p3', 'orders', 2, '2026-01-01 00:00:00.000000', '2026-01-02 17:22:59.660000', 'worker-10', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 255, "estimated_seconds": 12.1}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason) VALUES
('228c25e60bdc', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('228c25e60bdc', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest'),
('d850579a8ce8', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('d850579a8ce8', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('99b7cc8be6b0', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('99b7cc8be6b0', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest'),
('957235279d31', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('957235279d31', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest'),
('p1', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest'),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest'),
('p2', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest'),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest'),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest');

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('228c25e60bdc-w0', '228c25e60bdc', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 17:22:57.809000'),
('d850579a8ce8-w0', 'd850579a8ce8', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 17:22:58.332000'),
('99b7cc8be6b0-w0', '99b7cc8be6b0', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 17:22:58.790000'),
('957235279d31-w0', '957235279d31', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, '5bf5abc7d1de95ed', 'alpha/9/1.00', '2026-01-02 17:24:59.522000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('228c25e60bdc-w0', 1, '51c1b27163da631e', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 17:22:57.666000', '2026-01-02 17:22:57.810000'),
('d850579a8ce8-w0', 1, '1c88e13a223cfb91', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 17:22:58.197000', '2026-01-02 17:22:58.333000'),
('99b7cc8be6b0-w0', 1, 'afffb99dd4f74fcb', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 17:22:58.665000', '2026-01-02 17:22:58.804000'),
('957235279d31-w0', 1, '7e9ff03da73fc026', 'alpha/5/1.00', 'memory-4', 7, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 17:22:59.069000', '2026-01-02 17:22:59.145000'),
('957235279d31-w0', 2, '97b2c38931211992', 'alpha/5/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 17:22:59.162000', '2026-01-02 17:22:59.243000'),
('p2-w0', 1, '5bf5abc7d1de95ed', 'alpha/9/1.00', 'memory-5', 9, NULL, NULL, 'running', NULL, '2026-01-02 17:22:59.533000', NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('81758434aa75', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 17:22:58.403000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained) VALUES
('228c25e60bdc-w0r0', 1, '228c25e60bdc', '228c25e60bdc-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 42, 6, 0, 5, 6, 0, 0, 0, 0, 0),
('228c25e60bdc-w0r1', 2, '228c25e60bdc', '228c25e60bdc-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 45, 6, 0, 5, 6, 0, 0, 0, 0, 0),
('d850579a8ce8-w0r0', 1, 'd850579a8ce8', 'd850579a8ce8-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 232, 0, NULL, NULL, 0, 1, 2, 0, 0, 0),
('81758434aa75.9', 1, NULL, NULL, '81758434aa75', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0),
('99b7cc8be6b0-w0r0', 1, '99b7cc8be6b0', '99b7cc8be6b0-w0', NULL, 10, 12, 0, 'SETTLED', NULL, 124, 2, 10, 11, 2, 0, 0, 0, 0, 0),
('957235279d31-w0r0', 2, '957235279d31', '957235279d31-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 191, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 127, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 127, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 191, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 64, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 17:22:57.953000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 17:22:57.953000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 17:22:58.365000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 17:22:58.882000', 9, 12, 2);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 17:22:57.338000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 17:22:57.366000', 'orders', 'ledger', 'table', 'raw.orders', '1212e568-1d9a-4203-a7f6-1830b4c48d6e'),
(3, '2026-01-02 17:22:57.533000', 'orders', 'worker-1', 'plan', '228c25e60bdc', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 17:22:57.671000', 'orders', 'alpha/1/1.00', 'claim', '228c25e60bdc-w0', 'attempt 51c1b27163da631e, fence 1'),
(5, '2026-01-02 17:22:57.759000', 'orders', '51c1b27163da631e', 'stage', '228c25e60bdc-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 17:22:57.774000', 'orders', '51c1b27163da631e', 'publish', '228c25e60bdc-w0', 'attempt 51c1b27163da631e'),
(7, '2026-01-02 17:22:57.883000', 'orders', '51c1b27163da631e', 'settle', '228c25e60bdc-w0', 'attempt 51c1b27163da631e: 2 ranges, 12 rows'),
(8, '2026-01-02 17:22:57.954000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 17:22:58.145000', 'orders', 'worker-2', 'plan', 'd850579a8ce8', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 17:22:58.198000', 'orders', 'alpha/2/1.00', 'claim', 'd850579a8ce8-w0', 'attempt 1c88e13a223cfb91, fence 1'),
(11, '2026-01-02 17:22:58.278000', 'orders', '1c88e13a223cfb91', 'stage', 'd850579a8ce8-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 17:22:58.319000', 'orders', '1c88e13a223cfb91', 'publish', 'd850579a8ce8-w0', 'attempt 1c88e13a223cfb91'),
(13, '2026-01-02 17:22:58.342000', 'orders', '1c88e13a223cfb91', 'settle', 'd850579a8ce8-w0', 'attempt 1c88e13a223cfb91: 1 ranges, 0 rows'),
(14, '2026-01-02 17:22:58.365000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 17:22:58.481000', 'orders', 'worker-3', 'skip', '81758434aa75', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 17:22:58.608000', 'orders', 'worker-4', 'plan', '99b7cc8be6b0', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 17:22:58.666000', 'orders', 'alpha/4/1.00', 'claim', '99b7cc8be6b0-w0', 'attempt afffb99dd4f74fcb, fence 1'),
(18, '2026-01-02 17:22:58.745000', 'orders', 'afffb99dd4f74fcb', 'stage', '99b7cc8be6b0-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 17:22:58.784000', 'orders', 'afffb99dd4f74fcb', 'publish', '99b7cc8be6b0-w0', 'attempt afffb99dd4f74fcb'),
(20, '2026-01-02 17:22:58.830000', 'orders', 'afffb99dd4f74fcb', 'settle', '99b7cc8be6b0-w0', 'attempt afffb99dd4f74fcb: 1 ranges, 2 rows'),
(21, '2026-01-02 17:22:58.882000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 17:22:59.018000', 'orders', 'worker-5', 'plan', '957235279d31', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(23, '2026-01-02 17:22:59.070000', 'orders', 'alpha/5/1.00', 'claim', '957235279d31-w0', 'attempt 7e9ff03da73fc026, fence 1'),
(24, '2026-01-02 17:22:59.146000', 'orders', '7e9ff03da73fc026', 'end', '957235279d31-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(25, '2026-01-02 17:22:59.172000', 'orders', 'alpha/5/1.00', 'claim', '957235279d31-w0', 'attempt 97b2c38931211992, fence 2'),
(26, '2026-01-02 17:22:59.244000', 'orders', 'worker-5', 'take', '957235279d31-w0', '957235279d31-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(27, '2026-01-02 17:22:59.351000', 'orders', 'worker-6', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(28, '2026-01-02 17:22:59.390000', 'orders', 'worker-7', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(29, '2026-01-02 17:22:59.498000', 'orders', 'worker-8', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(30, '2026-01-02 17:22:59.540000', 'orders', 'alpha/9/1.00', 'claim', 'p2-w0', 'attempt 5bf5abc7d1de95ed, fence 1'),
(31, '2026-01-02 17:22:59.621000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(32, '2026-01-02 17:22:59.662000', 'orders', 'worker-10', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets');
