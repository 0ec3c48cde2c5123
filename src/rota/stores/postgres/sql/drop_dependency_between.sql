-- Delete the waits of and for the jobs of a day that is dropped: not those of some that stay, or have not ended.
DELETE FROM dependency
WHERE (
        child >= $1::bigint AND child < $2::bigint AND child <> ALL($3::bigint[])
        AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = dependency.child)
    )
    OR (
        parent >= $1::bigint AND parent < $2::bigint AND parent <> ALL($3::bigint[])
        AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = dependency.parent)
    )
