-- Group dead jobs by cause. In the place of finished jobs alone, of which it is one range.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM finished
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT %(limit)s
