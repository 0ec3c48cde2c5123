-- Workflows and their nodes.

-- name: insert_workflow
-- Store a new workflow.
INSERT INTO {schema}rota_workflow (id, name, policy, nodes, created_at)
VALUES ($1::bigint, $2::text, $3::text, $4::integer, $5::bigint)
ON CONFLICT DO NOTHING

-- name: insert_workflow_nodes
-- Store nodes of a workflow with their jobs.
INSERT INTO {schema}rota_workflow_node (workflow_id, position, job_id, name, parents, runs_after_failure)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[], $5::text[], $6::boolean[])

-- name: workflows_by_id
-- Workflows by id. By primary key.
SELECT id, name, policy, nodes, created_at FROM {schema}rota_workflow WHERE id = ANY(:keys::bigint[]) ORDER BY id DESC

-- name: workflows_before
-- Workflows, newest first. By primary key.
SELECT id, name, policy, nodes, created_at FROM {schema}rota_workflow
WHERE id < :before::bigint
ORDER BY id DESC
LIMIT :limit::bigint

-- name: workflow_counts
-- Count the current nodes of some workflows by the state of their jobs. By primary keys.
SELECT
    node.workflow_id,
    coalesce(node.state, job.state, job_done.state) AS state,
    CASE WHEN node.state IS NOT NULL THEN node.reason WHEN job.id IS NULL THEN job_done.reason ELSE job.reason END AS reason,
    node.is_skipped,
    count(*)
FROM {schema}rota_workflow_node AS node
LEFT JOIN {schema}rota_job AS job ON job.id = node.job_id
LEFT JOIN {schema}rota_job_done AS job_done ON job_done.id = node.job_id
WHERE node.workflow_id = ANY(:keys::bigint[]) AND node.replaced_by IS NULL
GROUP BY 1, 2, 3, 4

-- name: workflow_nodes
-- The nodes of a workflow with what is known of their jobs. By primary keys.
SELECT {workflow_node_columns}
FROM {schema}rota_workflow_node AS node LEFT JOIN {schema}rota_any_job AS any_job ON any_job.id = node.job_id
WHERE node.workflow_id = :id::bigint
ORDER BY node.position, node.job_id

-- name: workflow_nodes_of_jobs
-- The nodes of some jobs. Served by rota_workflow_node_job.
SELECT {workflow_node_columns}
FROM {schema}rota_workflow_node AS node LEFT JOIN {schema}rota_any_job AS any_job ON any_job.id = node.job_id
WHERE node.job_id = ANY(:keys::bigint[])
ORDER BY node.job_id

-- name: replace_workflow_nodes
-- Note that other jobs run in place of the jobs of some nodes, unless others do already. Served by
-- rota_workflow_node_job.
UPDATE {schema}rota_workflow_node AS node SET replaced_by = again.by_id
FROM unnest($2::bigint[], $3::bigint[]) AS again (job_id, by_id)
WHERE node.job_id = again.job_id AND node.workflow_id = $1::bigint AND node.replaced_by IS NULL

-- name: skip_workflow_nodes
-- Note that nodes were skipped. By primary key.
UPDATE {schema}rota_workflow_node AS node SET is_skipped = true
FROM unnest($2::integer[]) AS skipped (position)
WHERE node.workflow_id = $1::bigint AND node.position = skipped.position AND node.replaced_by IS NULL

-- name: jobs_that_fail_fast
-- The other unfinished jobs of workflows that fail fast, given jobs that failed: those that are not there for a
-- failure. Served by rota_workflow_node_job, then by primary keys.
SELECT DISTINCT other.job_id
FROM {schema}rota_workflow_node AS failed
JOIN {schema}rota_workflow AS workflow ON workflow.id = failed.workflow_id AND workflow.policy = 'fail_fast'
JOIN {schema}rota_workflow_node AS other ON other.workflow_id = failed.workflow_id
JOIN {schema}rota_job AS job ON job.id = other.job_id
WHERE failed.job_id = ANY($1::bigint[]) AND failed.replaced_by IS NULL AND other.replaced_by IS NULL
    AND NOT other.runs_after_failure
ORDER BY other.job_id

-- name: failure_templates
-- The follow-ups for failures of some finished jobs. By primary key of one partition for each.
SELECT job_done.id, job_done.on_failure, job_done.meta
FROM unnest($1::bigint[]) AS failed (id) JOIN {schema}rota_job_done AS job_done ON job_done.id = failed.id
WHERE job_done.on_failure IS NOT NULL
ORDER BY job_done.id

-- name: workflows_of_jobs
-- The workflows to which some jobs belong. Served by rota_workflow_node_job.
SELECT DISTINCT workflow_id FROM {schema}rota_workflow_node WHERE job_id = ANY($1::bigint[])

-- name: keep_ends_of_nodes
-- Note how jobs ended that are about to be deleted, if they belong to workflows. Served by rota_workflow_node_job.
UPDATE {schema}rota_workflow_node AS node SET state = job_done.state, reason = job_done.reason
FROM {schema}rota_job_done AS job_done
WHERE node.job_id = ANY($1::bigint[]) AND job_done.id = node.job_id

-- name: workflows_of_jobs_between
-- The workflows to which finished jobs with ids in a range belong. Served by rota_workflow_node_job.
SELECT DISTINCT workflow_id FROM {schema}rota_workflow_node
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])

-- name: keep_ends_of_nodes_between
-- Note how the jobs of a dropped day ended, except those that are kept. Served by rota_workflow_node_job.
UPDATE {schema}rota_workflow_node AS node SET state = job_done.state, reason = job_done.reason
FROM {schema}rota_job_done AS job_done
WHERE node.job_id >= $1::bigint AND node.job_id < $2::bigint AND node.job_id <> ALL($3::bigint[])
    AND job_done.id = node.job_id AND job_done.id >= $1::bigint AND job_done.id < $2::bigint

-- name: delete_empty_workflows
-- Delete those of some workflows whose jobs have all been deleted, with their nodes. By primary keys.
WITH gone AS (
    DELETE FROM {schema}rota_workflow AS workflow
    WHERE workflow.id = ANY($1::bigint[]) AND NOT EXISTS (
        SELECT 1 FROM {schema}rota_workflow_node AS node WHERE node.workflow_id = workflow.id AND node.state IS NULL
    )
    RETURNING workflow.id
)
DELETE FROM {schema}rota_workflow_node AS node USING gone WHERE node.workflow_id = gone.id
