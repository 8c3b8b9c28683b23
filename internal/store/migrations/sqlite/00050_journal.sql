-- Append-only logs of packs. Entries are never deleted: the state of a pack is a fold over them.

-- +goose Up
CREATE TABLE journal (
    stream TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    at     TIMESTAMP NOT NULL,
    as_of  TIMESTAMP NOT NULL,
    kind   TEXT NOT NULL,
    key    TEXT NOT NULL,
    body   TEXT,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX journal_kind ON journal (stream, kind, seq);
CREATE INDEX journal_key ON journal (stream, key, seq) WHERE key <> '';
CREATE INDEX journal_as_of ON journal (stream, as_of, seq);

-- +goose Down
DROP TABLE journal;
