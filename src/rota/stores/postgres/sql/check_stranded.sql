-- Give jobs that wait for nothing that could still end. Served by dependency_child.
SELECT job.id::text
FROM job
WHERE job.state = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM dependency JOIN job AS parent ON parent.id = dependency.parent
    WHERE dependency.child = job.id AND NOT dependency.met
)
ORDER BY job.id
LIMIT 100
