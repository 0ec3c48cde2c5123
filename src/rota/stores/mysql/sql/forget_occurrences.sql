-- Forget old fire times. Served by occurrence_at. Never the fire times still to come.
DELETE FROM occurrence WHERE at <= %(before)s AND fire_time <= %(before)s ORDER BY at LIMIT %(limit)s
