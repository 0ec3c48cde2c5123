-- Let other processes hear that there may be work. By primary key, of a row that nobody else writes.
INSERT INTO bell (origin, number, at) VALUES (%(origin)s, 1, %(now)s)
ON DUPLICATE KEY UPDATE number = number + 1, at = VALUES(at)
