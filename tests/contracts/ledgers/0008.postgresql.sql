CREATE TABLE kafka_lake_advance (
    sequence bigint NOT NULL,
    pipeline character varying(200) NOT NULL,
    stream bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    row_count bigint NOT NULL,
    CONSTRAINT kafka_lake_advance_check CHECK (((start_offset >= 0) AND (end_offset > start_offset)))
);
CREATE SEQUENCE kafka_lake_advance_sequence_seq;
ALTER SEQUENCE kafka_lake_advance_sequence_seq OWNED BY kafka_lake_advance.sequence;

CREATE TABLE kafka_lake_alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE kafka_lake_attempt (
    wave character varying(200) NOT NULL,
    fence bigint NOT NULL,
    attempt character varying(200) NOT NULL,
    holder character varying(400) NOT NULL,
    job text,
    base bigint,
    audited bigint,
    staged_bytes bigint,
    outcome character varying(20) NOT NULL,
    error text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT kafka_lake_attempt_outcome_check CHECK (outcome IN ('running', 'staged', 'committed', 'rejected', 'failed', 'unknown', 'abandoned'))
);

CREATE TABLE kafka_lake_event (
    sequence bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    pipeline character varying(200) NOT NULL,
    actor text NOT NULL,
    kind character varying(20) NOT NULL,
    subject text NOT NULL,
    detail text NOT NULL
);
CREATE SEQUENCE kafka_lake_event_sequence_seq;
ALTER SEQUENCE kafka_lake_event_sequence_seq OWNED BY kafka_lake_event.sequence;

CREATE TABLE kafka_lake_layout (
    pipeline character varying(200) NOT NULL,
    topic character varying(249) NOT NULL,
    topic_id character varying(40) NOT NULL,
    partitions integer NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    in_force integer NOT NULL,
    CONSTRAINT kafka_lake_layout_partitions_check CHECK ((partitions > 0))
);

CREATE TABLE kafka_lake_meta (
    key character varying(40) NOT NULL,
    value text NOT NULL
);

CREATE TABLE kafka_lake_outbox (
    id bigint NOT NULL,
    pipeline character varying(200) NOT NULL,
    table_name character varying(600) NOT NULL,
    kind character varying(20) NOT NULL,
    wave character varying(200) NOT NULL,
    attempt character varying(200) NOT NULL,
    fence bigint NOT NULL,
    stream bigint NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    generation integer NOT NULL,
    row_count bigint NOT NULL,
    first_offset bigint,
    last_offset bigint,
    visible bigint NOT NULL,
    control bigint NOT NULL,
    aborted bigint NOT NULL,
    compacted bigint NOT NULL,
    skipped bigint NOT NULL,
    unexplained bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    offsets text,
    CONSTRAINT kafka_lake_outbox_check CHECK (((start_offset >= 0) AND (end_offset > start_offset)))
);
CREATE SEQUENCE kafka_lake_outbox_id_seq;
ALTER SEQUENCE kafka_lake_outbox_id_seq OWNED BY kafka_lake_outbox.id;

CREATE TABLE kafka_lake_pipeline (
    name character varying(200) NOT NULL,
    version integer NOT NULL,
    digest character varying(16) NOT NULL,
    spec text NOT NULL,
    recorded_at timestamp with time zone NOT NULL
);

CREATE TABLE kafka_lake_plan (
    number bigint NOT NULL,
    id character varying(200) NOT NULL,
    pipeline character varying(200) NOT NULL,
    pipeline_version integer NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    detail text NOT NULL
);
CREATE SEQUENCE kafka_lake_plan_number_seq;
ALTER SEQUENCE kafka_lake_plan_number_seq OWNED BY kafka_lake_plan.number;

CREATE TABLE kafka_lake_range (
    id character varying(200) NOT NULL,
    stream bigint NOT NULL,
    plan character varying(200),
    wave character varying(200),
    skip character varying(200),
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    generation integer NOT NULL,
    state character varying(20) NOT NULL,
    reason text,
    estimated_bytes bigint NOT NULL,
    row_count bigint,
    first_offset bigint,
    last_offset bigint,
    visible bigint,
    control bigint,
    aborted bigint,
    compacted bigint,
    skipped bigint,
    unexplained bigint,
    fewer_accepted boolean DEFAULT false NOT NULL,
    held_for text,
    leader_epoch integer,
    CONSTRAINT kafka_lake_range_check CHECK (((start_offset >= 0) AND (end_offset > start_offset))),
    CONSTRAINT kafka_lake_range_check1 CHECK ((((state)::text <> ALL ((ARRAY['SETTLED'::character varying, 'SKIPPED'::character varying])::text[])) OR ((COALESCE(unexplained, (0)::bigint) = 0) AND (((((COALESCE(visible, (0)::bigint) + COALESCE(control, (0)::bigint)) + COALESCE(aborted, (0)::bigint)) + COALESCE(compacted, (0)::bigint)) + COALESCE(skipped, (0)::bigint)) = (end_offset - start_offset))))),
    CONSTRAINT kafka_lake_range_check2 CHECK ((((state)::text = 'SKIPPED'::text) OR (wave IS NOT NULL))),
    CONSTRAINT kafka_lake_range_check3 CHECK ((((state)::text <> 'SKIPPED'::text) OR (skip IS NOT NULL))),
    CONSTRAINT kafka_lake_range_state_check CHECK (state IN ('PLANNED', 'CANCELLED', 'HELD', 'SETTLED', 'SKIPPED'))
);

CREATE TABLE kafka_lake_segment (
    id bigint NOT NULL,
    stream bigint NOT NULL,
    start_offset bigint NOT NULL,
    layout integer NOT NULL,
    seal bigint,
    sealed integer NOT NULL,
    declared_at timestamp with time zone,
    CONSTRAINT kafka_lake_segment_check CHECK (((start_offset >= 0) AND (layout > 0))),
    CONSTRAINT kafka_lake_segment_check1 CHECK (((seal IS NULL) OR (seal >= start_offset))),
    CONSTRAINT kafka_lake_segment_check2 CHECK (((sealed = 0) OR (seal IS NOT NULL)))
);
CREATE SEQUENCE kafka_lake_segment_id_seq;
ALTER SEQUENCE kafka_lake_segment_id_seq OWNED BY kafka_lake_segment.id;

CREATE TABLE kafka_lake_segment_parent (
    segment bigint NOT NULL,
    parent bigint NOT NULL,
    CONSTRAINT kafka_lake_segment_parent_check CHECK ((segment <> parent))
);

CREATE TABLE kafka_lake_skip (
    id character varying(200) NOT NULL,
    stream bigint NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    offsets bigint NOT NULL,
    reason text NOT NULL,
    actor text NOT NULL,
    at timestamp with time zone NOT NULL,
    acknowledge_order boolean NOT NULL,
    CONSTRAINT kafka_lake_skip_check CHECK (((start_offset >= 0) AND (end_offset > start_offset)))
);

CREATE TABLE kafka_lake_snapshot (
    plan character varying(200) NOT NULL,
    stream bigint NOT NULL,
    leader_epoch integer,
    log_start bigint NOT NULL,
    last_stable bigint NOT NULL,
    high_watermark bigint NOT NULL,
    group_offset bigint,
    group_offset_state character varying(20) NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    reason text NOT NULL,
    number bigint
);

CREATE TABLE kafka_lake_stream (
    id bigint NOT NULL,
    pipeline character varying(200) NOT NULL,
    topic character varying(249) NOT NULL,
    topic_id character varying(40) NOT NULL,
    partition integer NOT NULL,
    origin bigint NOT NULL,
    watermark bigint NOT NULL,
    version bigint NOT NULL,
    end_seen bigint NOT NULL,
    leader_epoch integer,
    since timestamp with time zone,
    CONSTRAINT kafka_lake_stream_check CHECK (((origin >= 0) AND (watermark >= origin)))
);
CREATE SEQUENCE kafka_lake_stream_id_seq;
ALTER SEQUENCE kafka_lake_stream_id_seq OWNED BY kafka_lake_stream.id;

CREATE TABLE kafka_lake_table_binding (
    pipeline character varying(200) NOT NULL,
    table_name character varying(600) NOT NULL,
    uuid character varying(100) NOT NULL
);

CREATE TABLE kafka_lake_told (
    pipeline character varying(200) NOT NULL,
    sequence bigint NOT NULL
);

CREATE TABLE kafka_lake_wave (
    id character varying(200) NOT NULL,
    plan character varying(200) NOT NULL,
    ordinal integer NOT NULL,
    pipeline character varying(200) NOT NULL,
    table_name character varying(600) NOT NULL,
    state character varying(20) NOT NULL,
    fence bigint NOT NULL,
    attempt character varying(200),
    holder character varying(400),
    lease_until timestamp with time zone,
    snapshot_id bigint,
    settled_at timestamp with time zone,
    CONSTRAINT kafka_lake_wave_fence_check CHECK ((fence >= 0)),
    CONSTRAINT kafka_lake_wave_state_check CHECK (state IN ('PLANNED', 'CLAIMED', 'STAGED', 'PUBLISHING', 'COMMITTED', 'CANCELLED', 'DISSOLVED'))
);
ALTER TABLE kafka_lake_advance ALTER COLUMN sequence SET DEFAULT nextval('kafka_lake_advance_sequence_seq'::regclass);
ALTER TABLE kafka_lake_event ALTER COLUMN sequence SET DEFAULT nextval('kafka_lake_event_sequence_seq'::regclass);
ALTER TABLE kafka_lake_outbox ALTER COLUMN id SET DEFAULT nextval('kafka_lake_outbox_id_seq'::regclass);
ALTER TABLE kafka_lake_plan ALTER COLUMN number SET DEFAULT nextval('kafka_lake_plan_number_seq'::regclass);
ALTER TABLE kafka_lake_segment ALTER COLUMN id SET DEFAULT nextval('kafka_lake_segment_id_seq'::regclass);
ALTER TABLE kafka_lake_stream ALTER COLUMN id SET DEFAULT nextval('kafka_lake_stream_id_seq'::regclass);
ALTER TABLE kafka_lake_advance ADD CONSTRAINT kafka_lake_advance_pkey PRIMARY KEY (sequence);
ALTER TABLE kafka_lake_alembic_version ADD CONSTRAINT kafka_lake_alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE kafka_lake_attempt ADD CONSTRAINT kafka_lake_attempt_attempt_key UNIQUE (attempt);
ALTER TABLE kafka_lake_attempt ADD CONSTRAINT kafka_lake_attempt_pkey PRIMARY KEY (wave, fence);
ALTER TABLE kafka_lake_event ADD CONSTRAINT kafka_lake_event_pkey PRIMARY KEY (sequence);
ALTER TABLE kafka_lake_layout ADD CONSTRAINT kafka_lake_layout_pkey PRIMARY KEY (pipeline, topic_id, partitions);
ALTER TABLE kafka_lake_meta ADD CONSTRAINT kafka_lake_meta_pkey PRIMARY KEY (key);
ALTER TABLE kafka_lake_outbox ADD CONSTRAINT kafka_lake_outbox_pkey PRIMARY KEY (id);
ALTER TABLE kafka_lake_pipeline ADD CONSTRAINT kafka_lake_pipeline_pkey PRIMARY KEY (name, version);
ALTER TABLE kafka_lake_plan ADD CONSTRAINT kafka_lake_plan_id_key UNIQUE (id);
ALTER TABLE kafka_lake_plan ADD CONSTRAINT kafka_lake_plan_pkey PRIMARY KEY (number);
ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_no_overlap EXCLUDE USING gist (numrange((((stream)::numeric * '9223372036854775808'::numeric) + (start_offset)::numeric), (((stream)::numeric * '9223372036854775808'::numeric) + (end_offset)::numeric)) WITH &&);
ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_pkey PRIMARY KEY (id);
ALTER TABLE kafka_lake_segment_parent ADD CONSTRAINT kafka_lake_segment_parent_pkey PRIMARY KEY (segment, parent);
ALTER TABLE kafka_lake_segment ADD CONSTRAINT kafka_lake_segment_pkey PRIMARY KEY (id);
ALTER TABLE kafka_lake_segment ADD CONSTRAINT kafka_lake_segment_stream_start_offset_key UNIQUE (stream, start_offset);
ALTER TABLE kafka_lake_skip ADD CONSTRAINT kafka_lake_skip_pkey PRIMARY KEY (id);
ALTER TABLE kafka_lake_snapshot ADD CONSTRAINT kafka_lake_snapshot_pkey PRIMARY KEY (plan, stream);
ALTER TABLE kafka_lake_stream ADD CONSTRAINT kafka_lake_stream_pipeline_topic_id_partition_key UNIQUE (pipeline, topic_id, partition);
ALTER TABLE kafka_lake_stream ADD CONSTRAINT kafka_lake_stream_pkey PRIMARY KEY (id);
ALTER TABLE kafka_lake_table_binding ADD CONSTRAINT kafka_lake_table_binding_pkey PRIMARY KEY (pipeline, table_name);
ALTER TABLE kafka_lake_told ADD CONSTRAINT kafka_lake_told_pkey PRIMARY KEY (pipeline);
ALTER TABLE kafka_lake_wave ADD CONSTRAINT kafka_lake_wave_pkey PRIMARY KEY (id);
CREATE INDEX kafka_lake_advance_by_pipeline ON kafka_lake_advance USING btree (pipeline, sequence);
CREATE INDEX kafka_lake_event_by_pipeline ON kafka_lake_event USING btree (pipeline, sequence);
CREATE INDEX kafka_lake_outbox_by_pipeline ON kafka_lake_outbox USING btree (pipeline, id);
CREATE INDEX kafka_lake_range_by_plan ON kafka_lake_range USING btree (plan);
CREATE INDEX kafka_lake_range_by_state ON kafka_lake_range USING btree (state, stream);
CREATE INDEX kafka_lake_range_by_stream ON kafka_lake_range USING btree (stream, start_offset);
CREATE INDEX kafka_lake_range_by_wave ON kafka_lake_range USING btree (wave);
CREATE INDEX kafka_lake_snapshot_number ON kafka_lake_snapshot USING btree (number);
CREATE INDEX kafka_lake_wave_by_plan ON kafka_lake_wave USING btree (plan);
CREATE INDEX kafka_lake_wave_by_state ON kafka_lake_wave USING btree (pipeline, state);
ALTER TABLE kafka_lake_advance ADD CONSTRAINT kafka_lake_advance_stream_fkey FOREIGN KEY (stream) REFERENCES kafka_lake_stream(id);
ALTER TABLE kafka_lake_attempt ADD CONSTRAINT kafka_lake_attempt_wave_fkey FOREIGN KEY (wave) REFERENCES kafka_lake_wave(id);
ALTER TABLE kafka_lake_outbox ADD CONSTRAINT kafka_lake_outbox_stream_fkey FOREIGN KEY (stream) REFERENCES kafka_lake_stream(id);
ALTER TABLE kafka_lake_plan ADD CONSTRAINT kafka_lake_plan_pipeline_pipeline_version_fkey FOREIGN KEY (pipeline, pipeline_version) REFERENCES kafka_lake_pipeline(name, version);
ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_plan_fkey FOREIGN KEY (plan) REFERENCES kafka_lake_plan(id);
ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_skip_fkey FOREIGN KEY (skip) REFERENCES kafka_lake_skip(id);
ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_stream_fkey FOREIGN KEY (stream) REFERENCES kafka_lake_stream(id);
ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_wave_fkey FOREIGN KEY (wave) REFERENCES kafka_lake_wave(id);
ALTER TABLE kafka_lake_segment_parent ADD CONSTRAINT kafka_lake_segment_parent_parent_fkey FOREIGN KEY (parent) REFERENCES kafka_lake_segment(id);
ALTER TABLE kafka_lake_segment_parent ADD CONSTRAINT kafka_lake_segment_parent_segment_fkey FOREIGN KEY (segment) REFERENCES kafka_lake_segment(id);
ALTER TABLE kafka_lake_segment ADD CONSTRAINT kafka_lake_segment_stream_fkey FOREIGN KEY (stream) REFERENCES kafka_lake_stream(id);
ALTER TABLE kafka_lake_skip ADD CONSTRAINT kafka_lake_skip_stream_fkey FOREIGN KEY (stream) REFERENCES kafka_lake_stream(id);
ALTER TABLE kafka_lake_snapshot ADD CONSTRAINT kafka_lake_snapshot_plan_fkey FOREIGN KEY (plan) REFERENCES kafka_lake_plan(id);
ALTER TABLE kafka_lake_snapshot ADD CONSTRAINT kafka_lake_snapshot_stream_fkey FOREIGN KEY (stream) REFERENCES kafka_lake_stream(id);
ALTER TABLE kafka_lake_wave ADD CONSTRAINT kafka_lake_wave_plan_fkey FOREIGN KEY (plan) REFERENCES kafka_lake_plan(id);
