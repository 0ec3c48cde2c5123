-- Let jobs wait for others. Named twice, the first counts.
INSERT INTO dependency (parent, child, need)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) ON CONFLICT DO NOTHING
