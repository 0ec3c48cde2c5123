-- Let jobs that differ in id and payload only stand where they can be claimed; the rest was said by share.sql.
INSERT INTO ready (queue, type, turn, id, run_at, expires_at) VALUES (@queue, @type, @turn, %s, @run_at, NULL)
