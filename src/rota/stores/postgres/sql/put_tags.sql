-- Make jobs findable by their tags.
INSERT INTO tag (tag, job_id) SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING
