-- Questions that were asked and are not closed; a cache as well. `place` is that of the entry which asked, `open` whether its
-- opening is recorded.
CREATE TABLE questions (
  place INTEGER PRIMARY KEY,
  thread TEXT NOT NULL,
  question TEXT NOT NULL,
  dispatch TEXT NOT NULL,
  namespace TEXT NOT NULL,
  open INTEGER NOT NULL,
  UNIQUE (thread, question)
) STRICT;
CREATE INDEX questions_open ON questions (place) WHERE open = 1;
CREATE INDEX questions_open_by_namespace ON questions (namespace, place) WHERE open = 1;
