-- Count what was pruned: nothing disappears.
INSERT INTO pruned (state, count) VALUES ($1::text, $2::bigint)
ON CONFLICT (state) DO UPDATE SET count = pruned.count + excluded.count
