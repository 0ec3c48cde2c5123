-- Saved views of the list of jobs.

-- name: set_view
-- Save a view in place of its owner's view of that name. Primary key.
INSERT INTO rota_saved_view (owner, name, query, saved_by, saved_at)
VALUES (%(owner)s, %(name)s, %(query)s, %(saved_by)s, %(saved_at)s)
ON DUPLICATE KEY UPDATE query = VALUES(query), saved_by = VALUES(saved_by), saved_at = VALUES(saved_at);

-- name: delete_view
-- Remove a view. Primary key.
DELETE FROM rota_saved_view WHERE owner = %(owner)s AND name = %(name)s;

-- name: views_of
-- Read the views of an owner: at most a hundred. Primary key.
SELECT owner, name, query, saved_by, saved_at FROM rota_saved_view WHERE owner = %(owner)s ORDER BY name;
