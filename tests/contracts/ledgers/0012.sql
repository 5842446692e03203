INSERT INTO kafka_lake_meta (key, value) VALUES
('ledger_id', '2b621e6fe72d5c67f5940ba8d6f09f94');

INSERT INTO kafka_lake_pipeline (name, version, digest, spec, recorded_at) VALUES
('orders', 1, 'd775ca6ca933a4e1', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 16:44:21.935000'),
('orders', 2, '917086a051758473', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 300, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "orders", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": null, "table": "raw.orders", "target_range_bytes": 536870912, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 16:44:24.478000'),
('clicks', 1, '82a42f0b269d6397', '{"audit_rate": null, "end": {"group": null, "kind": "latest", "offsets": [], "timestamp_ms": null}, "isolation": "read_committed", "kafka_connection": "kafka_default", "lake_connection": "lake_default", "layout_grace": 2, "leader_wait": 60, "max_wave_bytes": 68719476736, "name": "clicks", "ordering": "key", "partition_by": "", "partitioner": "murmur2", "spark_connection": null, "stable_wait": 300, "start": {"group": null, "kind": "earliest", "offsets": [], "timestamp_ms": null}, "sync_group": "clicks-group", "table": "raw.clicks", "target_range_bytes": 268435456, "topic_pattern": null, "topics": ["orders"]}', '2026-01-02 16:44:24.559000');

INSERT INTO kafka_lake_table_binding (pipeline, table_name, uuid) VALUES
('orders', 'raw.orders', '7b4cd09f-0394-4e76-a0e5-ab04606aebad'),
('clicks', 'raw.clicks', '0a3a10c3-dee1-4603-a829-30481442ab5b');

INSERT INTO kafka_lake_stream (id, pipeline, topic, topic_id, partition, origin, watermark, version, end_seen, leader_epoch, since) VALUES
(1, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 10, 14, 17, 0, '2026-01-02 16:44:21.398959'),
(2, 'orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 6, 8, 12, 0, '2026-01-02 16:44:21.398959'),
(3, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 0, 0, 6, 7, 6, 0, '2026-01-02 16:44:24.549447'),
(4, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 1, 0, 5, 7, 5, 0, '2026-01-02 16:44:24.549447'),
(5, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, 0, 3, 4, 3, 0, '2026-01-02 16:44:26.549447'),
(6, 'clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 3, 0, 3, 4, 3, 0, '2026-01-02 16:44:26.549447');

INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) VALUES
('orders', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 16:44:21.398959', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 2, '2026-01-02 16:44:24.549447', 1),
('clicks', 'orders', 'AAAAAAAAAAAAAAAAAAAAAQ', 4, '2026-01-02 16:44:24.549447', 1);

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
(1, 'b2c0b08e35fd', 'orders', 1, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:21.991000', 'worker-1', '{"blocked": [], "estimated_records": 12, "estimated_bytes": 192, "estimated_seconds": 12.0}', NULL),
(2, 'c07e351cdd71', 'orders', 1, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:22.367000', 'worker-2', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 1.9}', NULL),
(3, '083598e884a9', 'orders', 1, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:22.779000', 'worker-4', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 1.1}', NULL),
(4, '0816c5e82ddd', 'orders', 1, '2026-01-02 16:44:23.324000', '2026-01-02 16:44:23.324000', 'worker-5', '{}', NULL),
(5, 'f4050493c3e2', 'orders', 1, '2026-01-02 16:44:23.717000', '2026-01-02 16:44:23.717000', 'worker-7', '{}', NULL),
(6, 'd4a100c8c6f0', 'orders', 1, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:23.813000', 'worker-8', '{"blocked": [], "estimated_records": 3, "estimated_bytes": 48, "estimated_seconds": 0.8}', NULL),
(7, 'p1', 'orders', 1, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:24.247000', 'worker-10', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}', NULL),
(8, 'p2', 'orders', 1, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:24.340000', 'worker-11', '{"blocked": [], "estimated_records": 2, "estimated_bytes": 32, "estimated_seconds": 0.8}', NULL),
(9, 'p3', 'orders', 2, '2026-01-02 16:44:21.398959', '2026-01-02 16:44:24.512000', 'worker-13', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.8}', NULL),
(10, 'f26d4460d146', 'clicks', 1, '2026-01-02 16:44:24.549447', '2026-01-02 16:44:24.584000', 'worker-1', '{"blocked": [], "estimated_records": 5, "estimated_bytes": 80, "estimated_seconds": 12.0}', NULL),
(11, '733bf3b8ad0f', 'clicks', 1, '2026-01-02 16:44:24.549447', '2026-01-02 16:44:24.822000', 'worker-2', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.8}', NULL),
(12, 'b6c6e5ed1891', 'clicks', 1, '2026-01-02 16:44:26.549447', '2026-01-02 16:44:27.071000', 'worker-3', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 1.0}', NULL),
(13, 'a936d3c6a236', 'clicks', 1, '2026-01-02 16:44:26.549447', '2026-01-02 16:44:27.390000', 'worker-4', '{"blocked": [], "estimated_records": 4, "estimated_bytes": 64, "estimated_seconds": 0.7}', NULL);

INSERT INTO kafka_lake_snapshot (plan, stream, leader_epoch, log_start, last_stable, high_watermark, group_offset, group_offset_state, start_offset, end_offset, reason, number) VALUES
('b2c0b08e35fd', 1, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('b2c0b08e35fd', 2, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from a new stream, from earliest to latest', 1),
('c07e351cdd71', 1, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 2),
('083598e884a9', 1, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 3),
('0816c5e82ddd', 1, 0, 0, 12, 12, NULL, 'none', 0, 3, 'wrong', 4),
('f4050493c3e2', 1, 0, 0, 12, 12, NULL, 'none', 10, 12, 'wrong', 5),
('d4a100c8c6f0', 2, 0, 0, 9, 9, NULL, 'none', 0, 9, 'what is missing from its origin to latest', 6),
('p1', 2, 0, 0, 11, 11, NULL, 'none', 0, 11, 'what is missing from its origin to latest', 7),
('p2', 1, 0, 0, 14, 14, NULL, 'none', 0, 14, 'what is missing from its origin to latest', 8),
('p3', 1, 0, 0, 17, 17, NULL, 'none', 0, 17, 'what is missing from its origin to latest', 9),
('p3', 2, 0, 0, 12, 12, NULL, 'none', 0, 12, 'what is missing from its origin to latest', 9),
('f26d4460d146', 3, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from a new stream, from earliest to latest', 10),
('f26d4460d146', 4, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 10),
('733bf3b8ad0f', 3, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 11),
('733bf3b8ad0f', 4, 0, 0, 4, 4, NULL, 'none', 0, 4, 'what is missing from its origin to latest', 11),
('b6c6e5ed1891', 5, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('b6c6e5ed1891', 6, 0, 0, 2, 2, NULL, 'none', 0, 2, 'what is missing from a new stream, from earliest to latest', 12),
('a936d3c6a236', 3, 0, 0, 6, 6, NULL, 'none', 0, 6, 'what is missing from its origin to latest', 13),
('a936d3c6a236', 4, 0, 0, 5, 5, NULL, 'none', 0, 5, 'what is missing from its origin to latest', 13),
('a936d3c6a236', 5, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13),
('a936d3c6a236', 6, 0, 0, 3, 3, NULL, 'none', 0, 3, 'what is missing from its origin to latest', 13);

INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence, attempt, lease_holder, lease_until, snapshot_id, committed_at) VALUES
('b2c0b08e35fd-w0', 'b2c0b08e35fd', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 3, '2026-01-02 16:44:22.234000'),
('c07e351cdd71-w0', 'c07e351cdd71', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 5, '2026-01-02 16:44:22.538000'),
('083598e884a9-w0', '083598e884a9', 0, 'orders', 'raw.orders', 'COMMITTED', 1, NULL, NULL, NULL, 7, '2026-01-02 16:44:22.901000'),
('0816c5e82ddd-w0', '0816c5e82ddd', 0, 'orders', 'raw.orders', 'COMMITTED', 2, NULL, NULL, NULL, 10, '2026-01-02 16:44:23.632000'),
('f4050493c3e2-w0', 'f4050493c3e2', 0, 'orders', 'raw.orders', 'DISSOLVED', 3, NULL, NULL, NULL, NULL, NULL),
('d4a100c8c6f0-w0', 'd4a100c8c6f0', 0, 'orders', 'raw.orders', 'DISSOLVED', 2, NULL, NULL, NULL, NULL, NULL),
('p1-w0', 'p1', 0, 'orders', 'raw.orders', 'CANCELLED', 0, NULL, NULL, NULL, NULL, NULL),
('p2-w0', 'p2', 0, 'orders', 'raw.orders', 'CLAIMED', 1, 'a532e20751ed88c1', 'alpha/12/1.00', '2026-01-02 16:46:24.369000', NULL, NULL),
('p3-w0', 'p3', 0, 'orders', 'raw.orders', 'PLANNED', 0, NULL, NULL, NULL, NULL, NULL),
('f26d4460d146-w0', 'f26d4460d146', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 19, '2026-01-02 16:44:24.712000'),
('733bf3b8ad0f-w0', '733bf3b8ad0f', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 21, '2026-01-02 16:44:24.940000'),
('b6c6e5ed1891-w0', 'b6c6e5ed1891', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 23, '2026-01-02 16:44:27.262000'),
('a936d3c6a236-w0', 'a936d3c6a236', 0, 'clicks', 'raw.clicks', 'COMMITTED', 1, NULL, NULL, NULL, 25, '2026-01-02 16:44:27.490000');

INSERT INTO kafka_lake_attempt (wave, fence, attempt, lease_holder, job, base, audited, staged_bytes, outcome, error, started_at, ended_at, step, rows_done, rows_expected, bytes_done, bytes_expected, step_at, progress_at, actor, application, cause) VALUES
('b2c0b08e35fd-w0', 1, '2d018bd202610ca2', 'alpha/1/1.00', 'memory-1', 1, 2, 927, 'committed', NULL, '2026-01-02 16:44:22.118000', '2026-01-02 16:44:22.234000', 'publish', 12, 12, 0, NULL, '2026-01-02 16:44:22.204000', '2026-01-02 16:44:22.234000', 'worker-1', NULL, NULL),
('c07e351cdd71-w0', 1, '054f99c233054f66', 'alpha/2/1.00', 'memory-2', 3, 4, 0, 'committed', NULL, '2026-01-02 16:44:22.429000', '2026-01-02 16:44:22.538000', 'publish', 0, 0, 0, NULL, '2026-01-02 16:44:22.503000', '2026-01-02 16:44:22.538000', 'worker-2', NULL, NULL),
('083598e884a9-w0', 1, 'b48d1f02425298fa', 'alpha/4/1.00', 'memory-3', 5, 6, 156, 'committed', NULL, '2026-01-02 16:44:22.808000', '2026-01-02 16:44:22.901000', 'publish', 2, 2, 0, NULL, '2026-01-02 16:44:22.878000', '2026-01-02 16:44:22.901000', 'worker-4', NULL, NULL),
('0816c5e82ddd-w0', 1, '8758dfe2320020d9', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-5', '2026-01-02 16:44:23.324000', '2026-01-02 16:44:23.324000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('0816c5e82ddd-w0', 2, '917f58d00045eaff', 'alpha/6/1.00', 'memory-4', 8, 9, 231, 'committed', NULL, '2026-01-02 16:44:23.544000', '2026-01-02 16:44:23.632000', 'publish', 3, 3, 0, NULL, '2026-01-02 16:44:23.605000', '2026-01-02 16:44:23.632000', 'worker-6', NULL, NULL),
('f4050493c3e2-w0', 1, '9bb805a61731ae4c', 'reopen/0/0', NULL, NULL, NULL, NULL, 'abandoned', 'moved main for a reopen, by worker-7', '2026-01-02 16:44:23.717000', '2026-01-02 16:44:23.717000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
('f4050493c3e2-w0', 2, '7185f15148a100af', 'alpha/8/1.00', 'memory-5', 11, NULL, NULL, 'failed', 'UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)', '2026-01-02 16:44:23.962000', '2026-01-02 16:44:24.004000', 'audit', 1, 2, 0, NULL, '2026-01-02 16:44:23.996000', '2026-01-02 16:44:23.996000', 'worker-8', NULL, NULL),
('f4050493c3e2-w0', 3, 'd26b5b3bee54c617', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 16:44:24.018000', '2026-01-02 16:44:24.037000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'worker-8', NULL, NULL),
('d4a100c8c6f0-w0', 1, 'a6c2645151e0d169', 'alpha/8/1.00', 'memory-6', 13, NULL, NULL, 'failed', 'UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)', '2026-01-02 16:44:24.063000', '2026-01-02 16:44:24.143000', 'audit', 2, 3, 0, NULL, '2026-01-02 16:44:24.124000', '2026-01-02 16:44:24.124000', 'worker-8', NULL, NULL),
('d4a100c8c6f0-w0', 2, 'f6b5e522a79101d1', 'alpha/8/1.00', NULL, NULL, NULL, NULL, 'abandoned', NULL, '2026-01-02 16:44:24.155000', '2026-01-02 16:44:24.168000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'worker-8', NULL, NULL),
('p2-w0', 1, 'a532e20751ed88c1', 'alpha/12/1.00', 'memory-7', 15, NULL, NULL, 'running', NULL, '2026-01-02 16:44:24.369000', NULL, 'read', 0, 2, 0, 32, '2026-01-02 16:44:24.427000', '2026-01-02 16:44:24.427000', 'worker-12', NULL, NULL),
('f26d4460d146-w0', 1, 'bc3f436245ef3c8d', 'alpha/1/1.00', 'memory-1', 17, 18, 385, 'committed', NULL, '2026-01-02 16:44:24.639000', '2026-01-02 16:44:24.712000', 'publish', 5, 5, 0, NULL, '2026-01-02 16:44:24.690000', '2026-01-02 16:44:24.712000', 'worker-1', NULL, NULL),
('733bf3b8ad0f-w0', 1, '3fab1d34ebc7cc0d', 'alpha/2/1.00', 'memory-2', 19, 20, 308, 'committed', NULL, '2026-01-02 16:44:24.862000', '2026-01-02 16:44:24.940000', 'publish', 4, 4, 0, NULL, '2026-01-02 16:44:24.908000', '2026-01-02 16:44:24.940000', 'worker-2', NULL, NULL),
('b6c6e5ed1891-w0', 1, 'd26bdbd571065010', 'alpha/3/1.00', 'memory-3', 21, 22, 312, 'committed', NULL, '2026-01-02 16:44:27.144000', '2026-01-02 16:44:27.262000', 'publish', 4, 4, 0, NULL, '2026-01-02 16:44:27.212000', '2026-01-02 16:44:27.262000', 'worker-3', NULL, NULL),
('a936d3c6a236-w0', 1, '8abb287e4e186c5e', 'alpha/4/1.00', 'memory-4', 23, 24, 312, 'committed', NULL, '2026-01-02 16:44:27.423000', '2026-01-02 16:44:27.490000', 'publish', 4, 4, 0, NULL, '2026-01-02 16:44:27.464000', '2026-01-02 16:44:27.490000', 'worker-4', NULL, NULL);

INSERT INTO kafka_lake_skip (id, stream, start_offset, end_offset, offsets, reason, actor, at, acknowledge_order) VALUES
('fca19ab68ced', 1, 9, 10, 1, 'poison', 'worker-3', '2026-01-02 16:44:22.667000', FALSE);

INSERT INTO kafka_lake_range (id, stream, plan, wave, skip, start_offset, end_offset, generation, state, reason, estimated_bytes, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, fewer_accepted, held_for, leader_epoch) VALUES
('b2c0b08e35fd-w0r0', 1, '0816c5e82ddd', '0816c5e82ddd-w0', NULL, 0, 3, 1, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('b2c0b08e35fd-w0r1', 2, 'b2c0b08e35fd', 'b2c0b08e35fd-w0', NULL, 0, 6, 0, 'COMMITTED', NULL, 96, 6, 0, 5, 6, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('c07e351cdd71-w0r0', 1, 'c07e351cdd71', 'c07e351cdd71-w0', NULL, 6, 9, 0, 'COMMITTED', NULL, 48, 0, NULL, NULL, 0, 1, 2, 0, 0, 0, FALSE, NULL, 0),
('fca19ab68ced.9', 1, NULL, NULL, 'fca19ab68ced', 9, 10, 0, 'SKIPPED', 'poison', 0, 0, NULL, NULL, 0, 0, 0, 0, 1, 0, FALSE, NULL, NULL),
('083598e884a9-w0r0', 1, 'f4050493c3e2', 'f4050493c3e2-w0', NULL, 10, 12, 1, 'HELD', 'UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[11, 12]]', 0),
('b2c0b08e35fd-w0r0.3', 1, 'b2c0b08e35fd', 'b2c0b08e35fd-w0', NULL, 3, 6, 0, 'COMMITTED', NULL, 48, 3, 3, 5, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('d4a100c8c6f0-w0r0', 2, 'd4a100c8c6f0', 'd4a100c8c6f0-w0', NULL, 6, 9, 0, 'HELD', 'UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)', 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, '[[8, 9]]', 0),
('p1-w0r0', 2, 'p1', 'p1-w0', NULL, 9, 11, 0, 'CANCELLED', 'not now', 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p2-w0r0', 1, 'p2', 'p2-w0', NULL, 12, 14, 0, 'PLANNED', NULL, 32, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r0', 1, 'p3', 'p3-w0', NULL, 14, 17, 0, 'PLANNED', NULL, 48, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('p3-w0r1', 2, 'p3', 'p3-w0', NULL, 11, 12, 0, 'PLANNED', NULL, 16, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, 0),
('f26d4460d146-w0r0', 3, 'f26d4460d146', 'f26d4460d146-w0', NULL, 0, 3, 0, 'COMMITTED', NULL, 48, 3, 0, 2, 3, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('f26d4460d146-w0r1', 4, 'f26d4460d146', 'f26d4460d146-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('733bf3b8ad0f-w0r0', 3, '733bf3b8ad0f', '733bf3b8ad0f-w0', NULL, 3, 5, 0, 'COMMITTED', NULL, 32, 2, 3, 4, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('733bf3b8ad0f-w0r1', 4, '733bf3b8ad0f', '733bf3b8ad0f-w0', NULL, 2, 4, 0, 'COMMITTED', NULL, 32, 2, 2, 3, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('b6c6e5ed1891-w0r0', 5, 'b6c6e5ed1891', 'b6c6e5ed1891-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('b6c6e5ed1891-w0r1', 6, 'b6c6e5ed1891', 'b6c6e5ed1891-w0', NULL, 0, 2, 0, 'COMMITTED', NULL, 32, 2, 0, 1, 2, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('a936d3c6a236-w0r0', 3, 'a936d3c6a236', 'a936d3c6a236-w0', NULL, 5, 6, 0, 'COMMITTED', NULL, 16, 1, 5, 5, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('a936d3c6a236-w0r1', 4, 'a936d3c6a236', 'a936d3c6a236-w0', NULL, 4, 5, 0, 'COMMITTED', NULL, 16, 1, 4, 4, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('a936d3c6a236-w0r2', 5, 'a936d3c6a236', 'a936d3c6a236-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0),
('a936d3c6a236-w0r3', 6, 'a936d3c6a236', 'a936d3c6a236-w0', NULL, 2, 3, 0, 'COMMITTED', NULL, 16, 1, 2, 2, 1, 0, 0, 0, 0, 0, FALSE, NULL, 0);

INSERT INTO kafka_lake_advance (sequence, pipeline, stream, at, start_offset, end_offset, row_count) VALUES
(1, 'orders', 1, '2026-01-02 16:44:22.269000', 0, 6, 6),
(2, 'orders', 2, '2026-01-02 16:44:22.269000', 0, 6, 6),
(3, 'orders', 1, '2026-01-02 16:44:22.620000', 6, 9, 0),
(4, 'orders', 1, '2026-01-02 16:44:22.924000', 9, 12, 2),
(5, 'orders', 1, '2026-01-02 16:44:23.656000', 0, 12, 8),
(6, 'clicks', 3, '2026-01-02 16:44:24.746000', 0, 3, 3),
(7, 'clicks', 4, '2026-01-02 16:44:24.746000', 0, 2, 2),
(8, 'clicks', 3, '2026-01-02 16:44:24.989000', 3, 5, 2),
(9, 'clicks', 4, '2026-01-02 16:44:24.989000', 2, 4, 2),
(10, 'clicks', 5, '2026-01-02 16:44:27.301000', 0, 2, 2),
(11, 'clicks', 6, '2026-01-02 16:44:27.301000', 0, 2, 2),
(12, 'clicks', 3, '2026-01-02 16:44:27.501000', 5, 6, 1),
(13, 'clicks', 4, '2026-01-02 16:44:27.501000', 4, 5, 1),
(14, 'clicks', 5, '2026-01-02 16:44:27.501000', 2, 3, 1),
(15, 'clicks', 6, '2026-01-02 16:44:27.501000', 2, 3, 1);

INSERT INTO kafka_lake_notified (pipeline, sequence, through, lease_holder, lease_until) VALUES
('orders', 4, NULL, NULL, NULL);

INSERT INTO kafka_lake_event (sequence, at, pipeline, actor, kind, subject, detail) VALUES
(1, '2026-01-02 16:44:21.945000', 'orders', 'ledger', 'pipeline', 'orders', 'version 1'),
(2, '2026-01-02 16:44:21.965000', 'orders', 'ledger', 'table', 'raw.orders', '7b4cd09f-0394-4e76-a0e5-ab04606aebad'),
(3, '2026-01-02 16:44:22.069000', 'orders', 'worker-1', 'plan', 'b2c0b08e35fd', '2 streams, 1 wave, 2 ranges, 12 offsets'),
(4, '2026-01-02 16:44:22.142000', 'orders', 'alpha/1/1.00', 'claim', 'b2c0b08e35fd-w0', 'attempt 2d018bd202610ca2, fence 1'),
(5, '2026-01-02 16:44:22.215000', 'orders', '2d018bd202610ca2', 'stage', 'b2c0b08e35fd-w0', 'snapshot 2, 927 bytes'),
(6, '2026-01-02 16:44:22.228000', 'orders', '2d018bd202610ca2', 'publish', 'b2c0b08e35fd-w0', 'attempt 2d018bd202610ca2'),
(7, '2026-01-02 16:44:22.248000', 'orders', '2d018bd202610ca2', 'commit', 'b2c0b08e35fd-w0', 'attempt 2d018bd202610ca2: 2 ranges, 12 rows'),
(8, '2026-01-02 16:44:22.277000', 'orders', 'ledger', 'advance', 'orders', '2 watermarks, 12 offsets, 12 rows'),
(9, '2026-01-02 16:44:22.390000', 'orders', 'worker-2', 'plan', 'c07e351cdd71', '2 streams, 1 wave, 1 range, 3 offsets'),
(10, '2026-01-02 16:44:22.441000', 'orders', 'alpha/2/1.00', 'claim', 'c07e351cdd71-w0', 'attempt 054f99c233054f66, fence 1'),
(11, '2026-01-02 16:44:22.505000', 'orders', '054f99c233054f66', 'stage', 'c07e351cdd71-w0', 'snapshot 4, 0 bytes'),
(12, '2026-01-02 16:44:22.530000', 'orders', '054f99c233054f66', 'publish', 'c07e351cdd71-w0', 'attempt 054f99c233054f66'),
(13, '2026-01-02 16:44:22.567000', 'orders', '054f99c233054f66', 'commit', 'c07e351cdd71-w0', 'attempt 054f99c233054f66: 1 range, 0 rows'),
(14, '2026-01-02 16:44:22.620000', 'orders', 'ledger', 'advance', 'orders', '1 watermark, 3 offsets, 0 rows'),
(15, '2026-01-02 16:44:22.699000', 'orders', 'worker-3', 'skip', 'fca19ab68ced', 'orders/0 9-10, 1 offset: poison'),
(16, '2026-01-02 16:44:22.792000', 'orders', 'worker-4', 'plan', '083598e884a9', '2 streams, 1 wave, 1 range, 2 offsets'),
(17, '2026-01-02 16:44:22.820000', 'orders', 'alpha/4/1.00', 'claim', '083598e884a9-w0', 'attempt b48d1f02425298fa, fence 1'),
(18, '2026-01-02 16:44:22.881000', 'orders', 'b48d1f02425298fa', 'stage', '083598e884a9-w0', 'snapshot 6, 156 bytes'),
(19, '2026-01-02 16:44:22.896000', 'orders', 'b48d1f02425298fa', 'publish', '083598e884a9-w0', 'attempt b48d1f02425298fa'),
(20, '2026-01-02 16:44:22.904000', 'orders', 'b48d1f02425298fa', 'commit', '083598e884a9-w0', 'attempt b48d1f02425298fa: 1 range, 2 rows'),
(21, '2026-01-02 16:44:22.924000', 'orders', 'ledger', 'advance', 'orders', '1 watermark, 3 offsets, 2 rows'),
(22, '2026-01-02 16:44:23.465000', 'orders', 'worker-5', 'reopen', '0816c5e82ddd', 'orders/0 0-3, 3 offsets, generation 1; watermark 12 → 0: wrong'),
(23, '2026-01-02 16:44:23.554000', 'orders', 'alpha/6/1.00', 'claim', '0816c5e82ddd-w0', 'attempt 917f58d00045eaff, fence 2'),
(24, '2026-01-02 16:44:23.607000', 'orders', '917f58d00045eaff', 'stage', '0816c5e82ddd-w0', 'snapshot 9, 231 bytes'),
(25, '2026-01-02 16:44:23.622000', 'orders', '917f58d00045eaff', 'publish', '0816c5e82ddd-w0', 'attempt 917f58d00045eaff'),
(26, '2026-01-02 16:44:23.643000', 'orders', '917f58d00045eaff', 'commit', '0816c5e82ddd-w0', 'attempt 917f58d00045eaff: 1 range, 3 rows'),
(27, '2026-01-02 16:44:23.656000', 'orders', 'ledger', 'advance', 'orders', '1 watermark, 12 offsets, 8 rows'),
(28, '2026-01-02 16:44:23.726000', 'orders', 'worker-7', 'reopen', 'f4050493c3e2', 'orders/0 10-12, 2 offsets, generation 1; watermark 12 → 10: wrong'),
(29, '2026-01-02 16:44:23.937000', 'orders', 'worker-8', 'plan', 'd4a100c8c6f0', '2 streams, 1 wave, 1 range, 3 offsets'),
(30, '2026-01-02 16:44:23.971000', 'orders', 'alpha/8/1.00', 'claim', 'f4050493c3e2-w0', 'attempt 7185f15148a100af, fence 2'),
(31, '2026-01-02 16:44:24.008000', 'orders', '7185f15148a100af', 'end', 'f4050493c3e2-w0', 'failed: UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)'),
(32, '2026-01-02 16:44:24.021000', 'orders', 'alpha/8/1.00', 'claim', 'f4050493c3e2-w0', 'attempt d26b5b3bee54c617, fence 3'),
(33, '2026-01-02 16:44:24.046000', 'orders', 'worker-8', 'revoke', 'f4050493c3e2-w0', '083598e884a9-w0r0 HELD: UnexplainedError: 1 offset is not explained: 11-12 (memory: unexplained)'),
(34, '2026-01-02 16:44:24.071000', 'orders', 'alpha/8/1.00', 'claim', 'd4a100c8c6f0-w0', 'attempt a6c2645151e0d169, fence 1'),
(35, '2026-01-02 16:44:24.146000', 'orders', 'a6c2645151e0d169', 'end', 'd4a100c8c6f0-w0', 'failed: UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)'),
(36, '2026-01-02 16:44:24.161000', 'orders', 'alpha/8/1.00', 'claim', 'd4a100c8c6f0-w0', 'attempt f6b5e522a79101d1, fence 2'),
(37, '2026-01-02 16:44:24.175000', 'orders', 'worker-8', 'revoke', 'd4a100c8c6f0-w0', 'd4a100c8c6f0-w0r0 HELD: UnexplainedError: 1 offset is not explained: 8-9 (memory: unexplained)'),
(38, '2026-01-02 16:44:24.256000', 'orders', 'worker-10', 'plan', 'p1', '2 streams, 1 wave, 1 range, 2 offsets'),
(39, '2026-01-02 16:44:24.281000', 'orders', 'worker-9', 'revoke', 'p1-w0', 'p1-w0r0 CANCELLED: not now'),
(40, '2026-01-02 16:44:24.350000', 'orders', 'worker-11', 'plan', 'p2', '2 streams, 1 wave, 1 range, 2 offsets'),
(41, '2026-01-02 16:44:24.380000', 'orders', 'alpha/12/1.00', 'claim', 'p2-w0', 'attempt a532e20751ed88c1, fence 1'),
(42, '2026-01-02 16:44:24.479000', 'orders', 'ledger', 'pipeline', 'orders', 'version 2'),
(43, '2026-01-02 16:44:24.531000', 'orders', 'worker-13', 'plan', 'p3', '2 streams, 1 wave, 2 ranges, 4 offsets'),
(44, '2026-01-02 16:44:24.560000', 'clicks', 'ledger', 'pipeline', 'clicks', 'version 1'),
(45, '2026-01-02 16:44:24.575000', 'clicks', 'ledger', 'table', 'raw.clicks', '0a3a10c3-dee1-4603-a829-30481442ab5b'),
(46, '2026-01-02 16:44:24.609000', 'clicks', 'worker-1', 'plan', 'f26d4460d146', '2 streams, 1 wave, 2 ranges, 5 offsets'),
(47, '2026-01-02 16:44:24.650000', 'clicks', 'alpha/1/1.00', 'claim', 'f26d4460d146-w0', 'attempt bc3f436245ef3c8d, fence 1'),
(48, '2026-01-02 16:44:24.692000', 'clicks', 'bc3f436245ef3c8d', 'stage', 'f26d4460d146-w0', 'snapshot 18, 385 bytes'),
(49, '2026-01-02 16:44:24.700000', 'clicks', 'bc3f436245ef3c8d', 'publish', 'f26d4460d146-w0', 'attempt bc3f436245ef3c8d'),
(50, '2026-01-02 16:44:24.729000', 'clicks', 'bc3f436245ef3c8d', 'commit', 'f26d4460d146-w0', 'attempt bc3f436245ef3c8d: 2 ranges, 5 rows'),
(51, '2026-01-02 16:44:24.747000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 5 offsets, 5 rows'),
(52, '2026-01-02 16:44:24.840000', 'clicks', 'worker-2', 'plan', '733bf3b8ad0f', '2 streams, 1 wave, 2 ranges, 4 offsets'),
(53, '2026-01-02 16:44:24.871000', 'clicks', 'alpha/2/1.00', 'claim', '733bf3b8ad0f-w0', 'attempt 3fab1d34ebc7cc0d, fence 1'),
(54, '2026-01-02 16:44:24.911000', 'clicks', '3fab1d34ebc7cc0d', 'stage', '733bf3b8ad0f-w0', 'snapshot 20, 308 bytes'),
(55, '2026-01-02 16:44:24.937000', 'clicks', '3fab1d34ebc7cc0d', 'publish', '733bf3b8ad0f-w0', 'attempt 3fab1d34ebc7cc0d'),
(56, '2026-01-02 16:44:24.970000', 'clicks', '3fab1d34ebc7cc0d', 'commit', '733bf3b8ad0f-w0', 'attempt 3fab1d34ebc7cc0d: 2 ranges, 4 rows'),
(57, '2026-01-02 16:44:24.990000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(58, '2026-01-02 16:44:27.111000', 'clicks', 'worker-3', 'plan', 'b6c6e5ed1891', '4 streams, 1 wave, 2 ranges, 4 offsets'),
(59, '2026-01-02 16:44:27.159000', 'clicks', 'alpha/3/1.00', 'claim', 'b6c6e5ed1891-w0', 'attempt d26bdbd571065010, fence 1'),
(60, '2026-01-02 16:44:27.220000', 'clicks', 'd26bdbd571065010', 'stage', 'b6c6e5ed1891-w0', 'snapshot 22, 312 bytes'),
(61, '2026-01-02 16:44:27.254000', 'clicks', 'd26bdbd571065010', 'publish', 'b6c6e5ed1891-w0', 'attempt d26bdbd571065010'),
(62, '2026-01-02 16:44:27.281000', 'clicks', 'd26bdbd571065010', 'commit', 'b6c6e5ed1891-w0', 'attempt d26bdbd571065010: 2 ranges, 4 rows'),
(63, '2026-01-02 16:44:27.301000', 'clicks', 'ledger', 'advance', 'clicks', '2 watermarks, 4 offsets, 4 rows'),
(64, '2026-01-02 16:44:27.401000', 'clicks', 'worker-4', 'plan', 'a936d3c6a236', '4 streams, 1 wave, 4 ranges, 4 offsets'),
(65, '2026-01-02 16:44:27.430000', 'clicks', 'alpha/4/1.00', 'claim', 'a936d3c6a236-w0', 'attempt 8abb287e4e186c5e, fence 1'),
(66, '2026-01-02 16:44:27.468000', 'clicks', '8abb287e4e186c5e', 'stage', 'a936d3c6a236-w0', 'snapshot 24, 312 bytes'),
(67, '2026-01-02 16:44:27.484000', 'clicks', '8abb287e4e186c5e', 'publish', 'a936d3c6a236-w0', 'attempt 8abb287e4e186c5e'),
(68, '2026-01-02 16:44:27.493000', 'clicks', '8abb287e4e186c5e', 'commit', 'a936d3c6a236-w0', 'attempt 8abb287e4e186c5e: 4 ranges, 4 rows'),
(69, '2026-01-02 16:44:27.501000', 'clicks', 'ledger', 'advance', 'clicks', '4 watermarks, 4 offsets, 4 rows');

INSERT INTO kafka_lake_outbox (id, pipeline, table_name, kind, wave, attempt, fence, stream, start_offset, end_offset, generation, row_count, first_offset, last_offset, visible, control, aborted, compacted, skipped, unexplained, recorded_at, offsets) VALUES
(22, 'clicks', 'raw.clicks', 'published', 'a936d3c6a236-w0', '8abb287e4e186c5e', 1, 3, 5, 6, 0, 1, 5, 5, 1, 0, 0, 0, 0, 0, '2026-01-02 16:44:27.490000', NULL),
(23, 'clicks', 'raw.clicks', 'published', 'a936d3c6a236-w0', '8abb287e4e186c5e', 1, 4, 4, 5, 0, 1, 4, 4, 1, 0, 0, 0, 0, 0, '2026-01-02 16:44:27.490000', NULL),
(24, 'clicks', 'raw.clicks', 'published', 'a936d3c6a236-w0', '8abb287e4e186c5e', 1, 5, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 16:44:27.490000', NULL),
(25, 'clicks', 'raw.clicks', 'published', 'a936d3c6a236-w0', '8abb287e4e186c5e', 1, 6, 2, 3, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, '2026-01-02 16:44:27.490000', NULL);
