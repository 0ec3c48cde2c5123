-- The app whose code defines a schedule: it goes when no process of that app defines it any more. None if made by hand.
-- On MariaDB this can be repeated, should it have been cut off.
ALTER TABLE schedule ADD COLUMN /*M! IF NOT EXISTS */ app VARCHAR(255);
