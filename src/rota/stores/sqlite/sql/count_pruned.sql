-- Count what was pruned: nothing disappears.
INSERT INTO pruned (state, count) VALUES (?, ?) ON CONFLICT (state) DO UPDATE SET count = count + excluded.count
