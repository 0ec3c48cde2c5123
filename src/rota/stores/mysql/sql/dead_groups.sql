-- Group dead jobs by cause. The dead are one range of finished.
SELECT job.type, finished.fingerprint, count(*) AS deaths, min(finished.finished_at), max(finished.finished_at),
    max(finished.id)
FROM finished FORCE INDEX (PRIMARY) STRAIGHT_JOIN job ON job.id = finished.id
WHERE finished.state = 'dead'
GROUP BY finished.fingerprint, job.type
ORDER BY deaths DESC, max(finished.id) DESC
LIMIT %(limit)s
