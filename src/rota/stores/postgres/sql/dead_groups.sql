-- Group dead jobs by cause. Served by job_done_dead.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM job_done
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT $1::bigint
