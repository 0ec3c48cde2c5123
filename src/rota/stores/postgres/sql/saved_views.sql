-- Saved views of the list of jobs.

-- name: set_view
-- Save a view in place of its owner's view of that name. By primary key.
INSERT INTO {schema}rota_saved_view (owner, name, query, saved_by, saved_at)
VALUES (:owner::text, :name::text, :query::text, :saved_by::text, :saved_at::bigint)
ON CONFLICT (owner, name) DO UPDATE SET query = excluded.query, saved_by = excluded.saved_by, saved_at = excluded.saved_at

-- name: delete_view
-- Remove a view. By primary key.
DELETE FROM {schema}rota_saved_view WHERE owner = :owner::text AND name = :name::text

-- name: views_of
-- Select the views of an owner: at most a hundred. By primary key.
SELECT owner, name, query, saved_by, saved_at FROM {schema}rota_saved_view WHERE owner = :owner::text ORDER BY name
