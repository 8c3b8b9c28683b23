-- Append-only logs of packs. Entries are never deleted: the state of a pack is a fold over them.

-- +goose Up
CREATE TABLE journal (
    stream text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    at     timestamptz NOT NULL,
    as_of  timestamptz NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    body   text,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX journal_kind ON journal (stream, kind, seq);
CREATE INDEX journal_key ON journal (stream, key, seq) WHERE key <> '';
CREATE INDEX journal_as_of ON journal (stream, as_of, seq);

-- +goose Down
DROP TABLE journal;
