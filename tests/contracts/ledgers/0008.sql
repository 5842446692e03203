INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '097c3bebda4a9f97d42b52ce5270572c');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd889d222ac644764', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 02:01:54.083000'),
('orders', 2, 'd29dfdbafbbb04cf', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": null, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 300, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 02:01:54.521000'),
('clicks', 1, '280e55bf14f11b98', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "leader_wait": 60, "max_wave_bytes": 68719476736, "mirror_group": "clicks-group", "name": "clicks", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "settle_time": 2, "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "table": "raw.clicks", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 02:01:54.536000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', 'e1709b60-3b96-422b-8861-f301c7315980'),
('clicks', 'raw.clicks', '56f3bd49-9851-484a-a13d-a5f9c7be018d');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 02:01:54.067550'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 02:01:54.067550'),
(3, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 6, 7, 6, 0, '2026-01-02 02:01:54.533295'),
(4, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 5, 7, 5, 0, '2026-01-02 02:01:54.533295'),
(5, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, 0, 3, 4, 3, 0, '2026-01-02 02:01:57.533295'),
(6, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 3, 0, 3, 4, 3, 0, '2026-01-02 02:01:57.533295');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 02:01:54.067550', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 02:01:54.533295', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 4, '2026-01-02 02:01:54.533295', 1);

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
(1, 'ecc810a585fb', 'orders', 1, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.095000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}'),
(2, '23fed4dcc682', 'orders', 1, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.201000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.8}'),
(3, 'e191159b9dc9', 'orders', 1, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.273000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.0}'),
(4, '391f9db57b3d', 'orders', 1, '2026-01-02 02:01:54.326000', '2026-01-02 02:01:54.326000', 'worker-5', '{}'),
(5, '0afe3d839e17', 'orders', 1, '2026-01-02 02:01:54.379000', '2026-01-02 02:01:54.379000', 'worker-7', '{}'),
(6, '4dc66394f840', 'orders', 1, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.400000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.7}'),
(7, 'p1', 'orders', 1, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.473000', 'worker-10', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}'),
(8, 'p2', 'orders', 1, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.496000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.7}'),
(9, 'p3', 'orders', 2, '2026-01-02 02:01:54.067550', '2026-01-02 02:01:54.525000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}'),
(10, 'f9556c20bd16', 'clicks', 1, '2026-01-02 02:01:54.533295', '2026-01-02 02:01:54.540000', 'worker-1', '{"blocked": [], "estimated_records": 5, "estimated_bytes": 80, "estimated_seconds": 12.0}'),
(11, 'p4', 'clicks', 1, '2026-01-02 02:01:54.533295', '2026-01-02 02:01:54.636000', 'worker-2', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.8}'),
(12, 'c8e9e644b091', 'clicks', 1, '2026-01-02 02:01:57.533295', '2026-01-02 02:01:57.738000', 'worker-3', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.8}'),
(13, '530c66153f16', 'clicks', 1, '2026-01-02 02:01:57.533295', '2026-01-02 02:01:57.835000', 'worker-4', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}');

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('ecc810a585fb', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('ecc810a585fb', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('23fed4dcc682', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('e191159b9dc9', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('391f9db57b3d', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('0afe3d839e17', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('4dc66394f840', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9),
('f9556c20bd16', 3, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from a new stream, from earliest to latest', 10),
('f9556c20bd16', 4, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 10),
('p4', 3, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 11),
('p4', 4, 0, 0, 4, 4, NULL, 'none', 0, 4, 'what is missing from its origin to latest', 11),
('c8e9e644b091', 5, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('c8e9e644b091', 6, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('530c66153f16', 3, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest', 13),
('530c66153f16', 4, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 13),
('530c66153f16', 5, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13),
('530c66153f16', 6, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, holder, lease_until, snapshot_id, settled_at) VALUES
('ecc810a585fb-w0', 'ecc810a585fb', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 02:01:54.163000'),
('23fed4dcc682-w0', '23fed4dcc682', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 02:01:54.232000'),
('e191159b9dc9-w0', 'e191159b9dc9', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 02:01:54.304000'),
('391f9db57b3d-w0', '391f9db57b3d', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 02:01:54.365000'),
('0afe3d839e17-w0', '0afe3d839e17', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('4dc66394f840-w0', '4dc66394f840', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, 'e2f5f60165c771cc', 'alpha/12/1.00', '2026-01-02 02:03:54.508000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL),
('f9556c20bd16-w0', 'f9556c20bd16', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 19, '2026-01-02 02:01:54.590000'),
('p4-w0', 'p4', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 21, '2026-01-02 02:01:57.778000'),
('c8e9e644b091-w0', 'c8e9e644b091', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 23, '2026-01-02 02:01:57.808000'),
('530c66153f16-w0', '530c66153f16', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 25, '2026-01-02 02:01:57.872000');

INSERT INTO kafka_lake_attempt (wave, fence, attempt, holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at) VALUES
('ecc810a585fb-w0', 1, '4c192060751b8b73', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 02:01:54.132000', '2026-01-02 02:01:54.163000'),
('23fed4dcc682-w0', 1, '2b1239f816078266', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 02:01:54.213000', '2026-01-02 02:01:54.232000'),
('e191159b9dc9-w0', 1, '9fea2fa4635afd0e', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 02:01:54.283000', '2026-01-02 02:01:54.304000'),
('391f9db57b3d-w0', 1, 'e3c7382c72afe69d', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 02:01:54.326000', '2026-01-02 02:01:54.326000'),
('391f9db57b3d-w0', 2, '52d5df33e74e0b78', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 02:01:54.349000', '2026-01-02 02:01:54.365000'),
('0afe3d839e17-w0', 1, '780199b832fa40e2', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 02:01:54.379000', '2026-01-02 02:01:54.379000'),
('0afe3d839e17-w0', 2, '3a2a77a1f6019d8d', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', '2026-01-02 02:01:54.406000', '2026-01-02 02:01:54.417000'),
('0afe3d839e17-w0', 3, '7b7134d1f28918ae', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 02:01:54.420000', '2026-01-02 02:01:54.437000'),
('4dc66394f840-w0', 1, '6d75c26f6d83d586', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', '2026-01-02 02:01:54.444000', '2026-01-02 02:01:54.454000'),
('4dc66394f840-w0', 2, '2004ac09967a4d6f', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 02:01:54.456000', '2026-01-02 02:01:54.460000'),
('p2-w0', 1, 'e2f5f60165c771cc', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 02:01:54.508000', NULL),
('f9556c20bd16-w0', 1, '3d9d98bc472c2176', 'alpha/1/1.00', 'memory-1', 17, 18, 385, 'committed', NULL, '2026-01-02 02:01:54.555000', '2026-01-02 02:01:54.590000'),
('p4-w0', 1, 'c464bd45c8008ecb', 'alpha/3/1.00', 'memory-2', 19, 20, 308, 'committed', NULL, '2026-01-02 02:01:57.758000', '2026-01-02 02:01:57.778000'),
('c8e9e644b091-w0', 1, 'cd12f6323c2caa1a', 'alpha/3/1.00', 'memory-3', 21, 22, 312, 'committed', NULL, '2026-01-02 02:01:57.788000', '2026-01-02 02:01:57.808000'),
('530c66153f16-w0', 1, '0dad689e4313bf5a', 'alpha/4/1.00', 'memory-4', 23, 24, 312, 'committed', NULL, '2026-01-02 02:01:57.845000', '2026-01-02 02:01:57.872000');

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('fcdcf69b4712', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 02:01:54.248000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('ecc810a585fb-w0r0', 1, '391f9db57b3d', '391f9db57b3d-w0', NULL, 0, 3, 1, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('ecc810a585fb-w0r1', 2, 'ecc810a585fb', 'ecc810a585fb-w0', NULL, 0, 6, 0, 'SETTLED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('23fed4dcc682-w0r0', 1, '23fed4dcc682', '23fed4dcc682-w0', NULL, 6, 9, 0, 'SETTLED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('fcdcf69b4712.9', 1, NULL, NULL, 'fcdcf69b4712', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('e191159b9dc9-w0r0', 1, '0afe3d839e17', '0afe3d839e17-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('ecc810a585fb-w0r0.3', 1, 'ecc810a585fb', 'ecc810a585fb-w0', NULL, 3, 6, 0, 'SETTLED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('4dc66394f840-w0r0', 2, '4dc66394f840', '4dc66394f840-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('f9556c20bd16-w0r0', 3, 'f9556c20bd16', 'f9556c20bd16-w0', NULL, 0, 3, 0, 'SETTLED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('f9556c20bd16-w0r1', 4, 'f9556c20bd16', 'f9556c20bd16-w0', NULL, 0, 2, 0, 'SETTLED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('p4-w0r0', 3, 'p4', 'p4-w0', NULL, 3, 5, 0, 'SETTLED', NULL, 32, 2, 3, 4, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('p4-w0r1', 4, 'p4', 'p4-w0', NULL, 2, 4, 0, 'SETTLED', NULL, 32, 2, 2, 3, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('c8e9e644b091-w0r0', 5, 'c8e9e644b091', 'c8e9e644b091-w0', NULL, 0, 2, 0, 'SETTLED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('c8e9e644b091-w0r1', 6, 'c8e9e644b091', 'c8e9e644b091-w0', NULL, 0, 2, 0, 'SETTLED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('530c66153f16-w0r0', 3, '530c66153f16', '530c66153f16-w0', NULL, 5, 6, 0, 'SETTLED', NULL, 16, 1, 5, 5, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('530c66153f16-w0r1', 4, '530c66153f16', '530c66153f16-w0', NULL, 4, 5, 0, 'SETTLED', NULL, 16, 1, 4, 4, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('530c66153f16-w0r2', 5, '530c66153f16', '530c66153f16-w0', NULL, 2, 3, 0, 'SETTLED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('530c66153f16-w0r3', 6, '530c66153f16', '530c66153f16-w0', NULL, 2, 3, 0, 'SETTLED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 02:01:54.178000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 02:01:54.178000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 02:01:54.242000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 02:01:54.315000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 02:01:54.371000', 0, 12, 8),
(6, 'clicks', 3, '2026-01-02 02:01:54.616000', 0, 3, 3),
(7, 'clicks', 4, '2026-01-02 02:01:54.616000', 0, 2, 2),
(8, 'clicks', 3, '2026-01-02 02:01:57.816000', 3, 5, 2),
(9, 'clicks', 4, '2026-01-02 02:01:57.816000', 2, 4, 2),
(10, 'clicks', 5, '2026-01-02 02:01:57.816000', 0, 2, 2),
(11, 'clicks', 6, '2026-01-02 02:01:57.816000', 0, 2, 2),
(12, 'clicks', 3, '2026-01-02 02:01:57.881000', 5, 6, 1),
(13, 'clicks', 4, '2026-01-02 02:01:57.881000', 4, 5, 1),
(14, 'clicks', 5, '2026-01-02 02:01:57.881000', 2, 3, 1),
(15, 'clicks', 6, '2026-01-02 02:01:57.881000', 2, 3, 1);

INSERT INTO kafka_lake_told (pipeline, sequence) VALUES
('orders', 4),
('clicks', 12);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 02:01:54.086000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 02:01:54.089000', 'orders', 'ledger', 'table', 'raw.orders', 'e1709b60-3b96-422b-8861-f301c7315980'),
(3, '2026-01-02 02:01:54.116000', 'orders', 'worker-1', 'plan', 'ecc810a585fb', '2 streams, 1 waves, 2 ranges, 12 offsets'),
(4, '2026-01-02 02:01:54.139000', 'orders', 'alpha/1/1.00', 'claim', 'ecc810a585fb-w0', 'attempt 4c192060751b8b73, fence 1'),
(5, '2026-01-02 02:01:54.155000', 'orders', '4c192060751b8b73', 'stage', 'ecc810a585fb-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 02:01:54.161000', 'orders', '4c192060751b8b73', 'publish', 'ecc810a585fb-w0', 'attempt 4c192060751b8b73'),
(7, '2026-01-02 02:01:54.169000', 'orders', '4c192060751b8b73', 'settle', 'ecc810a585fb-w0', 'attempt 4c192060751b8b73: 2 ranges, 12 rows'),
(8, '2026-01-02 02:01:54.179000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 02:01:54.208000', 'orders', 'worker-2', 'plan', '23fed4dcc682', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(10, '2026-01-02 02:01:54.215000', 'orders', 'alpha/2/1.00', 'claim', '23fed4dcc682-w0', 'attempt 2b1239f816078266, fence 1'),
(11, '2026-01-02 02:01:54.225000', 'orders', '2b1239f816078266', 'stage', '23fed4dcc682-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 02:01:54.231000', 'orders', '2b1239f816078266', 'publish', '23fed4dcc682-w0', 'attempt 2b1239f816078266'),
(13, '2026-01-02 02:01:54.236000', 'orders', '2b1239f816078266', 'settle', '23fed4dcc682-w0', 'attempt 2b1239f816078266: 1 ranges, 0 rows'),
(14, '2026-01-02 02:01:54.243000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 0 rows'),
(15, '2026-01-02 02:01:54.255000', 'orders', 'worker-3', 'skip', 'fcdcf69b4712', 'orders/0 9-10, 1 offsets: poison'),
(16, '2026-01-02 02:01:54.277000', 'orders', 'worker-4', 'plan', 'e191159b9dc9', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(17, '2026-01-02 02:01:54.285000', 'orders', 'alpha/4/1.00', 'claim', 'e191159b9dc9-w0', 'attempt 9fea2fa4635afd0e, fence 1'),
(18, '2026-01-02 02:01:54.297000', 'orders', '9fea2fa4635afd0e', 'stage', 'e191159b9dc9-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 02:01:54.302000', 'orders', '9fea2fa4635afd0e', 'publish', 'e191159b9dc9-w0', 'attempt 9fea2fa4635afd0e'),
(20, '2026-01-02 02:01:54.308000', 'orders', '9fea2fa4635afd0e', 'settle', 'e191159b9dc9-w0', 'attempt 9fea2fa4635afd0e: 1 ranges, 2 rows'),
(21, '2026-01-02 02:01:54.315000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 3 offsets, 2 rows'),
(22, '2026-01-02 02:01:54.332000', 'orders', 'worker-5', 'reopen', '391f9db57b3d', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 02:01:54.352000', 'orders', 'alpha/6/1.00', 'claim', '391f9db57b3d-w0', 'attempt 52d5df33e74e0b78, fence 2'),
(24, '2026-01-02 02:01:54.360000', 'orders', '52d5df33e74e0b78', 'stage', '391f9db57b3d-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 02:01:54.364000', 'orders', '52d5df33e74e0b78', 'publish', '391f9db57b3d-w0', 'attempt 52d5df33e74e0b78'),
(26, '2026-01-02 02:01:54.367000', 'orders', '52d5df33e74e0b78', 'settle', '391f9db57b3d-w0', 'attempt 52d5df33e74e0b78: 1 ranges, 3 rows'),
(27, '2026-01-02 02:01:54.371000', 'orders', 'ledger', 'advance', 'orders', '1 watermarks, 12 offsets, 8 rows'),
(28, '2026-01-02 02:01:54.383000', 'orders', 'worker-7', 'reopen', '0afe3d839e17', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 02:01:54.402000', 'orders', 'worker-8', 'plan', '4dc66394f840', '2 streams, 1 waves, 1 ranges, 3 offsets'),
(30, '2026-01-02 02:01:54.408000', 'orders', 'alpha/8/1.00', 'claim', '0afe3d839e17-w0', 'attempt 3a2a77a1f6019d8d, fence 2'),
(31, '2026-01-02 02:01:54.419000', 'orders', '3a2a77a1f6019d8d', 'end', '0afe3d839e17-w0', 'failed: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 02:01:54.422000', 'orders', 'alpha/8/1.00', 'claim', '0afe3d839e17-w0', 'attempt 7b7134d1f28918ae, fence 3'),
(33, '2026-01-02 02:01:54.440000', 'orders', 'worker-8', 'take', '0afe3d839e17-w0', 'e191159b9dc9-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 02:01:54.446000', 'orders', 'alpha/8/1.00', 'claim', '4dc66394f840-w0', 'attempt 6d75c26f6d83d586, fence 1'),
(35, '2026-01-02 02:01:54.455000', 'orders', '6d75c26f6d83d586', 'end', '4dc66394f840-w0', 'failed: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 02:01:54.458000', 'orders', 'alpha/8/1.00', 'claim', '4dc66394f840-w0', 'attempt 2004ac09967a4d6f, fence 2'),
(37, '2026-01-02 02:01:54.462000', 'orders', 'worker-8', 'take', '4dc66394f840-w0', '4dc66394f840-w0r0 HELD: UnexplainedError: 1 offsets are not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 02:01:54.476000', 'orders', 'worker-10', 'plan', 'p1', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(39, '2026-01-02 02:01:54.483000', 'orders', 'worker-9', 'take', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 02:01:54.503000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 waves, 1 ranges, 2 offsets'),
(41, '2026-01-02 02:01:54.510000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt e2f5f60165c771cc, fence 1'),
(42, '2026-01-02 02:01:54.522000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 02:01:54.531000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 waves, 2 ranges, 4 offsets'),
(44, '2026-01-02 02:01:54.537000', 'clicks', 'ledger', 'pipeline', 'clicks', 'version 1'),
(45, '2026-01-02 02:01:54.538000', 'clicks', 'ledger', 'table', 'raw.clicks', '56f3bd49-9851-484a-a13d-a5f9c7be018d'),
(46, '2026-01-02 02:01:54.549000', 'clicks', 'worker-1', 'plan', 'f9556c20bd16', '2 streams, 1 waves, 2 ranges, 5 offsets'),
(47, '2026-01-02 02:01:54.558000', 'clicks', 'alpha/1/1.00', 'claim', 'f9556c20bd16-w0', 'attempt 3d9d98bc472c2176, fence 1'),
(48, '2026-01-02 02:01:54.566000', 'clicks', '3d9d98bc472c2176', 'stage', 'f9556c20bd16-w0', 'snapshot 18, 385 bytes'),
(49, '2026-01-02 02:01:54.587000', 'clicks', '3d9d98bc472c2176', 'publish', 'f9556c20bd16-w0', 'attempt 3d9d98bc472c2176'),
(50, '2026-01-02 02:01:54.603000', 'clicks', '3d9d98bc472c2176', 'settle', 'f9556c20bd16-w0', 'attempt 3d9d98bc472c2176: 2 ranges, 5 rows'),
(51, '2026-01-02 02:01:54.617000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 5 offsets, 5 rows'),
(52, '2026-01-02 02:01:54.641000', 'clicks', 'worker-2', 'plan', 'p4', '2 streams, 1 waves, 2 ranges, 4 offsets'),
(53, '2026-01-02 02:01:57.750000', 'clicks', 'worker-3', 'plan', 'c8e9e644b091', '4 streams, 1 waves, 2 ranges, 4 offsets'),
(54, '2026-01-02 02:01:57.760000', 'clicks', 'alpha/3/1.00', 'claim', 'p4-w0', 'attempt c464bd45c8008ecb, fence 1'),
(55, '2026-01-02 02:01:57.772000', 'clicks', 'c464bd45c8008ecb', 'stage', 'p4-w0', 'snapshot 20, 308 bytes'),
(56, '2026-01-02 02:01:57.777000', 'clicks', 'c464bd45c8008ecb', 'publish', 'p4-w0', 'attempt c464bd45c8008ecb'),
(57, '2026-01-02 02:01:57.783000', 'clicks', 'c464bd45c8008ecb', 'settle', 'p4-w0', 'attempt c464bd45c8008ecb: 2 ranges, 4 rows'),
(58, '2026-01-02 02:01:57.790000', 'clicks', 'alpha/3/1.00', 'claim', 'c8e9e644b091-w0', 'attempt cd12f6323c2caa1a, fence 1'),
(59, '2026-01-02 02:01:57.801000', 'clicks', 'cd12f6323c2caa1a', 'stage', 'c8e9e644b091-w0', 'snapshot 22, 312 bytes'),
(60, '2026-01-02 02:01:57.806000', 'clicks', 'cd12f6323c2caa1a', 'publish', 'c8e9e644b091-w0', 'attempt cd12f6323c2caa1a'),
(61, '2026-01-02 02:01:57.811000', 'clicks', 'cd12f6323c2caa1a', 'settle', 'c8e9e644b091-w0', 'attempt cd12f6323c2caa1a: 2 ranges, 4 rows'),
(62, '2026-01-02 02:01:57.817000', 'clicks', 'ledger', 'advance', 'clicks', '4 watermarks, 8 offsets, 8 rows'),
(63, '2026-01-02 02:01:57.839000', 'clicks', 'worker-4', 'plan', '530c66153f16', '4 streams, 1 waves, 4 ranges, 4 offsets'),
(64, '2026-01-02 02:01:57.847000', 'clicks', 'alpha/4/1.00', 'claim', '530c66153f16-w0', 'attempt 0dad689e4313bf5a, fence 1'),
(65, '2026-01-02 02:01:57.865000', 'clicks', '0dad689e4313bf5a', 'stage', '530c66153f16-w0', 'snapshot 24, 312 bytes'),
(66, '2026-01-02 02:01:57.871000', 'clicks', '0dad689e4313bf5a', 'publish', '530c66153f16-w0', 'attempt 0dad689e4313bf5a'),
(67, '2026-01-02 02:01:57.875000', 'clicks', '0dad689e4313bf5a', 'settle', '530c66153f16-w0', 'attempt 0dad689e4313bf5a: 4 ranges, 4 rows'),
(68, '2026-01-02 02:01:57.881000', 'clicks', 'ledger', 'advance', 'clicks', '4 watermarks, 4 offsets, 4 rows');

INSERT INTO kafka_lake_outbox (id, pipeline, table_name, kind, wave, attempt, fence, stream, start_offset, end_offset, generation, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, recorded_at, offsets) VALUES
(22, 'clicks', 'raw.clicks', 'published', '530c66153f16-w0', '0dad689e4313bf5a', 1, 3, 5, 6, 0, 1, 5, 5, 1, 0, 0, 0, 0, 0, '2026-01-02 02:01:57.872000', NULL),
(23, 'clicks', 'raw.clicks', 'published', '530c66153f16-w0', '0dad689e4313bf5a', 1, 4, 4, 5, 0, 1, 4, 4, 1, 0, 0, 0, 0, 0, '2026-01-02 02:01:57.872000', NULL),
(24, 'clicks', 'raw.clicks', 'published', '530c66153f16-w0', '0dad689e4313bf5a', 1, 5, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 02:01:57.872000', NULL),
(25, 'clicks', 'raw.clicks', 'published', '530c66153f16-w0', '0dad689e4313bf5a', 1, 6, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 02:01:57.872000', NULL);
