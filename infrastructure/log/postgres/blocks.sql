-- The tables of Refold's own log that are not in the logs of other applications: those seal nothing.
-- Refold of schema 2 knows nothing of blocks. It does not find the column under its new name, so it fails, also where it
-- is connected already, instead of taking streams for empty.
ALTER TABLE event RENAME COLUMN stream TO stream_key;

-- A block: events of the positions `first` to `last` of a slice, compressed; they are not in `event` any more.
-- The positions may have several blocks, counted by `place`.
CREATE TABLE block (
    slice int NOT NULL,
    place int NOT NULL,
    last bigint NOT NULL,
    first bigint NOT NULL,
    checksum bytea NOT NULL,
    digests bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (slice, last, place)
);

-- Consecutive versions of one stream in one block, with the position and time of the first of them; `start` is its index
-- among the events of the block.
CREATE TABLE part (
    slice int NOT NULL,
    stream int NOT NULL,
    last_version int NOT NULL,
    first_version int NOT NULL,
    position bigint NOT NULL,
    recorded_at bigint NOT NULL,
    last bigint NOT NULL,
    place int NOT NULL,
    start int NOT NULL,
    PRIMARY KEY (slice, stream, last_version)
);

ALTER TABLE block ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE block ALTER COLUMN digests SET STORAGE EXTERNAL;
