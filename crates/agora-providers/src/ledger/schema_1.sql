-- What happened. `place` counts over all threads and is never used again; `hash` is sha256(hash before it ‖ body).
CREATE TABLE entries (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  thread TEXT NOT NULL,
  seq INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  body BLOB NOT NULL,
  hash BLOB NOT NULL,
  UNIQUE (thread, seq)
) STRICT;
CREATE INDEX entries_by_namespace ON entries (namespace, place);

-- What nothing can be folded from.
CREATE TABLE papers (
  dispatch TEXT PRIMARY KEY,
  thread TEXT NOT NULL,
  job TEXT NOT NULL,
  claim_at INTEGER,
  claim_boot TEXT,
  report TEXT
) STRICT;
CREATE TABLE wishes (thread TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
  namespace TEXT NOT NULL,
  key TEXT NOT NULL,
  dispatch TEXT NOT NULL,
  request TEXT NOT NULL,
  PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_dispatch ON keys (dispatch);
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  thread TEXT NOT NULL,
  destination TEXT NOT NULL,
  body TEXT NOT NULL,
  tries INTEGER NOT NULL,
  due_at INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_due ON outbox (due_at, id);
CREATE INDEX outbox_by_thread ON outbox (thread);

-- A cache from here on: all of it follows from entries and papers.
CREATE TABLE threads (
  thread TEXT PRIMARY KEY,
  seen INTEGER NOT NULL,
  live INTEGER NOT NULL,
  carried INTEGER NOT NULL,
  due_at INTEGER,
  ended_at INTEGER,
  expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_carried ON threads (thread) WHERE carried = 1;
CREATE INDEX threads_due ON threads (due_at, thread) WHERE due_at IS NOT NULL;
CREATE INDEX threads_expiring ON threads (expires_at, ended_at, thread) WHERE expires_at IS NOT NULL;

-- `place` is that of the entry which accepted the dispatch. `fresh` is 0 for a continued thread, `rank` the negated
-- priority, so that the queue's order is ascending. States are numbered as in `StateWord::ALL`: below 2 is live.
CREATE TABLE dispatches (
  place INTEGER PRIMARY KEY,
  dispatch TEXT NOT NULL UNIQUE,
  thread TEXT NOT NULL,
  namespace TEXT NOT NULL,
  subagent TEXT NOT NULL,
  target TEXT NOT NULL,
  labels TEXT NOT NULL,
  state INTEGER NOT NULL,
  fresh INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  claimed INTEGER NOT NULL,
  accepted_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER
) STRICT;
CREATE INDEX dispatches_by_thread ON dispatches (thread, place);
CREATE INDEX dispatches_by_state ON dispatches (state, place);
CREATE INDEX dispatches_by_namespace ON dispatches (namespace, state, place);
CREATE INDEX dispatches_waiting ON dispatches (target, fresh, rank, place) WHERE claimed = 0 AND state < 2;
CREATE INDEX dispatches_claimed ON dispatches (target) WHERE claimed = 1 AND state < 2;
CREATE TABLE labels (
  place INTEGER NOT NULL REFERENCES dispatches (place) ON DELETE CASCADE,
  label TEXT NOT NULL,
  state INTEGER NOT NULL,
  PRIMARY KEY (place, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_by_state ON labels (label, state, place);
