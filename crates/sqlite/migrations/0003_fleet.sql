-- Version 3: the fleet.
--
-- The number of a worker's sessions is the number of its unexpired rows in `tidemill_sessions`;
-- there is no counter. A session may exist before its worker: after a loss of data, owners and
-- holders enter both again in any order.

-- `id` is the kind, a colon and the name. `full_until` is a hint that saves a lease the counting:
-- the first end of a full worker's sessions when they were last counted. Any change that frees a
-- slot earlier resets it. Columns that change come first and bytes last.
CREATE TABLE tidemill_members (
    number        INTEGER PRIMARY KEY,
    beat_at       INTEGER NOT NULL,
    stale_at      INTEGER NOT NULL,
    ordered_until INTEGER NOT NULL DEFAULT 0,
    grace_until   INTEGER NOT NULL,
    full_until    INTEGER NOT NULL DEFAULT 0,
    lifetime      INTEGER NOT NULL,
    concurrent    INTEGER NOT NULL,
    most          INTEGER NOT NULL,
    fresh         INTEGER NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('available', 'draining')),
    kind          TEXT    NOT NULL,
    id            TEXT    NOT NULL UNIQUE,
    offer         TEXT    NOT NULL,
    endpoint      TEXT    NOT NULL,
    detail        BLOB    NOT NULL
) STRICT;

-- A lease reads this from the most used worker on, and stops early.
CREATE INDEX tidemill_members_by_wear ON tidemill_members (kind, lifetime);

CREATE INDEX tidemill_members_by_kind ON tidemill_members (kind, id);

CREATE INDEX tidemill_members_by_staleness ON tidemill_members (stale_at);

CREATE TABLE tidemill_sessions (
    number     INTEGER PRIMARY KEY,
    until      INTEGER NOT NULL,
    connected  INTEGER NOT NULL,
    closing    INTEGER NOT NULL DEFAULT 0,
    keep       INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    id         TEXT    NOT NULL UNIQUE,
    member     TEXT    NOT NULL,
    holder     TEXT    NOT NULL,
    detail     BLOB    NOT NULL
) STRICT;

-- Counting a worker's sessions reads only this index.
CREATE INDEX tidemill_sessions_by_member ON tidemill_sessions (member, until);

CREATE INDEX tidemill_sessions_by_end ON tidemill_sessions (until);

-- Sessions that wait for a worker. The number is the position in the line: a new session gets the
-- greatest.
CREATE TABLE tidemill_tickets (
    number  INTEGER PRIMARY KEY,
    until   INTEGER NOT NULL,
    session TEXT    NOT NULL UNIQUE,
    kind    TEXT    NOT NULL,
    offer   TEXT    NOT NULL,
    holder  TEXT    NOT NULL,
    refused TEXT    NOT NULL            -- members it cannot use, by its latest question, with a space on either side of each
) STRICT;

CREATE INDEX tidemill_tickets_by_line ON tidemill_tickets (kind, offer);

CREATE INDEX tidemill_tickets_by_end ON tidemill_tickets (until);
