-- Forget old fire times. Served by occurrence_at. Never the fire times still to come.
DELETE FROM occurrence WHERE (schedule_id, fire_time) IN (
    SELECT schedule_id, fire_time FROM occurrence
    WHERE at <= :before AND fire_time <= :before ORDER BY at LIMIT :limit
)
