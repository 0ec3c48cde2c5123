-- Forget writers that have made no work for long.
DELETE FROM bell WHERE at <= %(before)s
