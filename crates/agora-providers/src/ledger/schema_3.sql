-- Who wished it, as JSON, where that is known.
ALTER TABLE wishes ADD COLUMN wisher TEXT;
