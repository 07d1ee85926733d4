-- A log on PostgreSQL. {p} is the prefix of the application's tables, empty for Refold's own.
-- `slice` is in every key, so that a slice can be on any shard; ids are compared byte by byte.
-- Facts about the whole log: the version of its schema.
CREATE TABLE {p}refold_meta (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- One row per slice: a writer locks it to append to the slice.
CREATE TABLE {p}slice_lock (
    slice int PRIMARY KEY
);

-- A stream, its slice, and the integer key that rows of that slice use for it.
CREATE TABLE {p}stream (
    id text COLLATE "C" PRIMARY KEY,
    slice int NOT NULL,
    key int NOT NULL,
    UNIQUE (slice, key)
);

-- The types of events, named once.
CREATE TABLE {p}tag (
    key int PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- The log. Positions have no holes within a slice and rise in the order of commits.
CREATE TABLE {p}event (
    slice int NOT NULL,
    stream int NOT NULL,
    position bigint NOT NULL,
    version int NOT NULL,
    tag int NOT NULL,
    recorded_at bigint NOT NULL,
    event_id uuid NOT NULL,
    meta bytea,
    payload bytea NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (slice, position),
    UNIQUE (slice, stream, version),
    UNIQUE (slice, event_id)
);

-- A large text, stored once in its slice for each key id.
CREATE TABLE {p}blob (
    slice int NOT NULL,
    key bigint NOT NULL,
    hash bytea NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (slice, key),
    UNIQUE (slice, hash, key_id)
);

-- A compression dictionary; rows refer to it by its number, so it is kept for ever.
CREATE TABLE {p}dictionary (
    number int PRIMARY KEY,
    checksum bytea NOT NULL,
    data bytea NOT NULL
);

-- The versions that were recorded under an idempotency key.
CREATE TABLE {p}idempotency (
    slice int NOT NULL,
    stream int NOT NULL,
    key text COLLATE "C" NOT NULL,
    first_version int NOT NULL,
    last_version int NOT NULL,
    PRIMARY KEY (slice, stream, key)
);

-- The bytes are already compressed: the database need not compress them again.
ALTER TABLE {p}event ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE {p}blob ALTER COLUMN data SET STORAGE EXTERNAL;
