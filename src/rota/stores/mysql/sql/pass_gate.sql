-- Let nobody else into a queue until we are done: whoever counts what waits there must be alone. By primary key.
INSERT INTO gate (queue) VALUES (%s) ON DUPLICATE KEY UPDATE queue = VALUES(queue)
