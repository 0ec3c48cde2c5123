-- The app whose code defines a schedule: it goes when no process of that app defines it any more. None if made by hand.
ALTER TABLE schedule ADD COLUMN app text;
