-- Count what was pruned: nothing disappears.
INSERT INTO pruned (state, count) VALUES (%(state)s, %(count)s)
ON DUPLICATE KEY UPDATE count = count + VALUES(count)
