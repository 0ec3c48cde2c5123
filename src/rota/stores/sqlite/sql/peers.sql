-- Say how many workers are alive and take the same jobs as one, itself not among them, and how many of them come before it.
SELECT count(*) FILTER (WHERE boot < :boot), count(*)
FROM member
WHERE role = 'worker' AND NOT is_draining AND seen_at > :since AND boot <> :boot AND queues = :queues AND types IS :types
