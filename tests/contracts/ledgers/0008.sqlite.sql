CREATE TABLE kafka_lake_alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT kafka_lake_alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE kafka_lake_meta (
    "key" VARCHAR(40) NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);

CREATE TABLE kafka_lake_pipeline (
    name VARCHAR(200) NOT NULL,
    version INTEGER NOT NULL,
    digest VARCHAR(16) NOT NULL,
    spec TEXT NOT NULL,
    recorded_at DATETIME NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE kafka_lake_table_binding (
    pipeline VARCHAR(200) NOT NULL,
    table_name VARCHAR(600) NOT NULL,
    uuid VARCHAR(100) NOT NULL,
    PRIMARY KEY (pipeline, table_name)
);

CREATE TABLE kafka_lake_stream (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    pipeline VARCHAR(200) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    topic_id VARCHAR(40) NOT NULL,
    partition INTEGER NOT NULL,
    origin BIGINT NOT NULL,
    watermark BIGINT NOT NULL,
    version BIGINT NOT NULL,
    end_seen BIGINT NOT NULL,
    leader_epoch INTEGER, since DATETIME,
    UNIQUE (pipeline, topic_id, partition),
    CHECK (origin >= 0 AND watermark >= origin)
);

CREATE TABLE kafka_lake_plan (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id VARCHAR(200) NOT NULL,
    pipeline VARCHAR(200) NOT NULL,
    pipeline_version INTEGER NOT NULL,
    observed_at DATETIME NOT NULL,
    recorded_at DATETIME NOT NULL,
    actor TEXT NOT NULL,
    detail TEXT NOT NULL,
    UNIQUE (id),
    FOREIGN KEY(pipeline, pipeline_version) REFERENCES kafka_lake_pipeline (name, version)
);

CREATE TABLE kafka_lake_snapshot (
    "plan" VARCHAR(200) NOT NULL,
    stream BIGINT NOT NULL,
    leader_epoch INTEGER,
    log_start BIGINT NOT NULL,
    last_stable BIGINT NOT NULL,
    high_watermark BIGINT NOT NULL,
    group_offset BIGINT,
    group_offset_state VARCHAR(20) NOT NULL,
    start_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    reason TEXT NOT NULL, number BIGINT,
    PRIMARY KEY ("plan", stream),
    FOREIGN KEY("plan") REFERENCES kafka_lake_plan (id),
    FOREIGN KEY(stream) REFERENCES kafka_lake_stream (id)
);

CREATE TABLE kafka_lake_wave (
    id VARCHAR(200) NOT NULL,
    "plan" VARCHAR(200) NOT NULL,
    ordinal INTEGER NOT NULL,
    pipeline VARCHAR(200) NOT NULL,
    table_name VARCHAR(600) NOT NULL,
    state VARCHAR(20) NOT NULL,
    fence BIGINT NOT NULL,
    attempt VARCHAR(200),
    holder VARCHAR(400),
    lease_until DATETIME,
    snapshot_id BIGINT,
    settled_at DATETIME,
    PRIMARY KEY (id),
    FOREIGN KEY("plan") REFERENCES kafka_lake_plan (id),
    CHECK (state IN ('PLANNED', 'CLAIMED', 'STAGED', 'PUBLISHING', 'COMMITTED', 'CANCELLED', 'DISSOLVED')),
    CHECK (fence >= 0)
);

CREATE INDEX kafka_lake_wave_by_state ON kafka_lake_wave (pipeline, state);

CREATE INDEX kafka_lake_wave_by_plan ON kafka_lake_wave ("plan");

CREATE TABLE kafka_lake_attempt (
    wave VARCHAR(200) NOT NULL,
    fence BIGINT NOT NULL,
    attempt VARCHAR(200) NOT NULL,
    holder VARCHAR(400) NOT NULL,
    job TEXT,
    base BIGINT,
    audited BIGINT,
    staged_bytes BIGINT,
    outcome VARCHAR(20) NOT NULL,
    error TEXT,
    started_at DATETIME NOT NULL,
    ended_at DATETIME,
    PRIMARY KEY (wave, fence),
    UNIQUE (attempt),
    FOREIGN KEY(wave) REFERENCES kafka_lake_wave (id),
    CHECK (outcome IN ('running', 'staged', 'committed', 'rejected', 'failed', 'unknown', 'abandoned'))
);

CREATE TABLE kafka_lake_skip (
    id VARCHAR(200) NOT NULL,
    stream BIGINT NOT NULL,
    start_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    offsets BIGINT NOT NULL,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    at DATETIME NOT NULL,
    acknowledge_order BOOLEAN NOT NULL,
    PRIMARY KEY (id),
    CHECK (start_offset >= 0 AND end_offset > start_offset),
    FOREIGN KEY(stream) REFERENCES kafka_lake_stream (id)
);

CREATE TABLE kafka_lake_range (
    id VARCHAR(200) NOT NULL,
    stream BIGINT NOT NULL,
    "plan" VARCHAR(200),
    wave VARCHAR(200),
    skip VARCHAR(200),
    start_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    generation INTEGER NOT NULL,
    state VARCHAR(20) NOT NULL,
    reason TEXT,
    estimated_bytes BIGINT NOT NULL,
    row_count BIGINT,
    first_offset BIGINT,
    last_offset BIGINT,
    visible BIGINT,
    control BIGINT,
    aborted BIGINT,
    compacted BIGINT,
    skipped BIGINT,
    unexplained BIGINT, fewer_accepted BOOLEAN DEFAULT 0 NOT NULL, held_for TEXT, leader_epoch INTEGER,
    PRIMARY KEY (id),
    CHECK (start_offset >= 0 AND end_offset > start_offset),
    FOREIGN KEY(stream) REFERENCES kafka_lake_stream (id),
    FOREIGN KEY("plan") REFERENCES kafka_lake_plan (id),
    FOREIGN KEY(wave) REFERENCES kafka_lake_wave (id),
    FOREIGN KEY(skip) REFERENCES kafka_lake_skip (id),
    CHECK (state IN ('PLANNED', 'CANCELLED', 'HELD', 'SETTLED', 'SKIPPED')),
    CHECK (state NOT IN ('SETTLED', 'SKIPPED') OR (coalesce(unexplained, 0) = 0 AND coalesce(visible, 0) + coalesce(control, 0) + coalesce(aborted, 0) + coalesce(compacted, 0) + coalesce(skipped, 0) = end_offset - start_offset)),
    CHECK (state = 'SKIPPED' OR wave IS NOT NULL),
    CHECK (state <> 'SKIPPED' OR skip IS NOT NULL)
);

CREATE INDEX kafka_lake_range_by_stream ON kafka_lake_range (stream, start_offset);

CREATE INDEX kafka_lake_range_by_wave ON kafka_lake_range (wave);

CREATE INDEX kafka_lake_range_by_plan ON kafka_lake_range ("plan");

CREATE INDEX kafka_lake_range_by_state ON kafka_lake_range (state, stream);

CREATE TABLE kafka_lake_advance (
    sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    pipeline VARCHAR(200) NOT NULL,
    stream BIGINT NOT NULL,
    at DATETIME NOT NULL,
    start_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    CHECK (start_offset >= 0 AND end_offset > start_offset),
    FOREIGN KEY(stream) REFERENCES kafka_lake_stream (id)
);

CREATE INDEX kafka_lake_advance_by_pipeline ON kafka_lake_advance (pipeline, sequence);

CREATE TABLE kafka_lake_told (
    pipeline VARCHAR(200) NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (pipeline)
);

CREATE TABLE kafka_lake_event (
    sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at DATETIME NOT NULL,
    pipeline VARCHAR(200) NOT NULL,
    actor TEXT NOT NULL,
    kind VARCHAR(20) NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE INDEX kafka_lake_event_by_pipeline ON kafka_lake_event (pipeline, sequence);

CREATE TABLE kafka_lake_outbox (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    pipeline VARCHAR(200) NOT NULL,
    table_name VARCHAR(600) NOT NULL,
    kind VARCHAR(20) NOT NULL,
    wave VARCHAR(200) NOT NULL,
    attempt VARCHAR(200) NOT NULL,
    fence BIGINT NOT NULL,
    stream BIGINT NOT NULL,
    start_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    generation INTEGER NOT NULL,
    row_count BIGINT NOT NULL,
    first_offset BIGINT,
    last_offset BIGINT,
    visible BIGINT NOT NULL,
    control BIGINT NOT NULL,
    aborted BIGINT NOT NULL,
    compacted BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    unexplained BIGINT NOT NULL,
    recorded_at DATETIME NOT NULL, offsets TEXT,
    CHECK (start_offset >= 0 AND end_offset > start_offset),
    FOREIGN KEY(stream) REFERENCES kafka_lake_stream (id)
);

CREATE INDEX kafka_lake_outbox_by_pipeline ON kafka_lake_outbox (pipeline, id);

CREATE TABLE kafka_lake_layout (
    pipeline VARCHAR(200) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    topic_id VARCHAR(40) NOT NULL,
    partitions INTEGER NOT NULL,
    seen_at DATETIME NOT NULL,
    in_force INTEGER NOT NULL,
    PRIMARY KEY (pipeline, topic_id, partitions),
    CHECK (partitions > 0)
);

CREATE TABLE kafka_lake_segment (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    stream BIGINT NOT NULL,
    start_offset BIGINT NOT NULL,
    layout INTEGER NOT NULL,
    seal BIGINT,
    sealed INTEGER NOT NULL,
    declared_at DATETIME,
    UNIQUE (stream, start_offset),
    FOREIGN KEY(stream) REFERENCES kafka_lake_stream (id),
    CHECK (start_offset >= 0 AND layout > 0),
    CHECK (seal IS NULL OR seal >= start_offset),
    CHECK (sealed = 0 OR seal IS NOT NULL)
);

CREATE TABLE kafka_lake_segment_parent (
    segment BIGINT NOT NULL,
    parent BIGINT NOT NULL,
    PRIMARY KEY (segment, parent),
    FOREIGN KEY(segment) REFERENCES kafka_lake_segment (id),
    FOREIGN KEY(parent) REFERENCES kafka_lake_segment (id),
    CHECK (segment <> parent)
);

CREATE TRIGGER kafka_lake_range_no_overlap_insert BEFORE INSERT ON kafka_lake_range BEGIN SELECT RAISE(ABORT, 'kafka_lake: ranges of a stream never overlap') WHERE NEW.start_offset < (SELECT end_offset FROM kafka_lake_range WHERE stream = NEW.stream AND start_offset < NEW.end_offset AND id <> NEW.id ORDER BY start_offset DESC LIMIT 1); END;

CREATE TRIGGER kafka_lake_range_no_overlap_update BEFORE UPDATE OF stream, start_offset, end_offset ON kafka_lake_range BEGIN SELECT RAISE(ABORT, 'kafka_lake: ranges of a stream never overlap') WHERE NEW.start_offset < (SELECT end_offset FROM kafka_lake_range WHERE stream = NEW.stream AND start_offset < NEW.end_offset AND id <> NEW.id ORDER BY start_offset DESC LIMIT 1); END;

CREATE INDEX kafka_lake_snapshot_number ON kafka_lake_snapshot (number);
