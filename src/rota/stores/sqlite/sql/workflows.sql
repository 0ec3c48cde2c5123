-- name: insert_workflow
-- Store a new workflow.
INSERT INTO rota_workflow (id, name, policy, nodes, created_at) VALUES (?, ?, ?, ?, ?)

-- name: insert_workflow_node
-- Store a node of a workflow with its job.
INSERT INTO rota_workflow_node (workflow_id, position, job_id, name, parents, runs_after_failure)
VALUES (?, ?, ?, ?, ?, ?)

-- name: workflow_ids
-- Select which of some ids are those of workflows. By primary key.
SELECT id FROM rota_workflow WHERE id IN (SELECT value FROM json_each(?))

-- name: workflows_by_id
-- Select workflows by id. By primary key.
SELECT id, name, policy, nodes, created_at FROM rota_workflow WHERE id IN (SELECT value FROM json_each(:keys)) ORDER BY id DESC

-- name: workflows_before
-- Select workflows, newest first. By primary key.
SELECT id, name, policy, nodes, created_at FROM rota_workflow WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: workflow_counts
-- Count the current nodes of some workflows by the state of their jobs. By the primary keys of both tables.
SELECT
    node.workflow_id, coalesce(node.state, job.state), CASE WHEN node.state IS NULL THEN job.reason ELSE node.reason END,
    node.is_skipped, count(*)
FROM rota_workflow_node AS node LEFT JOIN rota_job AS job ON job.id = node.job_id
WHERE node.workflow_id IN (SELECT value FROM json_each(:keys)) AND node.replaced_by IS NULL
GROUP BY 1, 2, 3, 4

-- name: workflow_nodes
-- Select the nodes of a workflow with what is known of their jobs. By the primary keys of both tables.
SELECT {workflow_node_columns}
FROM rota_workflow_node AS node LEFT JOIN rota_job AS job ON job.id = node.job_id
WHERE node.workflow_id = :id
ORDER BY node.position, node.job_id

-- name: workflow_nodes_of_jobs
-- Select the nodes of some jobs. Index: rota_workflow_node_job.
SELECT {workflow_node_columns}
FROM rota_workflow_node AS node LEFT JOIN rota_job AS job ON job.id = node.job_id
WHERE node.job_id IN (SELECT value FROM json_each(:keys))
ORDER BY node.job_id

-- name: replace_workflow_node
-- Note that another job runs in place of a node's job, unless one does already. Index: rota_workflow_node_job.
UPDATE rota_workflow_node SET replaced_by = :by
WHERE job_id = :job_id AND workflow_id = :workflow_id AND replaced_by IS NULL

-- name: skip_workflow_node
-- Note that a node was skipped. By primary key.
UPDATE rota_workflow_node SET is_skipped = 1
WHERE workflow_id = :workflow_id AND position = :position AND replaced_by IS NULL

-- name: jobs_that_fail_fast
-- Select the other jobs of workflows that fail fast, given jobs that failed: those that are not there for a failure.
-- Index: rota_workflow_node_job, then by primary key.
SELECT DISTINCT other.job_id
FROM rota_workflow_node AS failed
JOIN rota_workflow AS workflow ON workflow.id = failed.workflow_id AND workflow.policy = 'fail_fast'
JOIN rota_workflow_node AS other ON other.workflow_id = failed.workflow_id
JOIN rota_job AS job ON job.id = other.job_id AND job.finished_at IS NULL
WHERE failed.job_id IN (SELECT value FROM json_each(?)) AND failed.replaced_by IS NULL AND other.replaced_by IS NULL
    AND NOT other.runs_after_failure
ORDER BY other.job_id

-- name: cancel_waiting_job
-- Cancel a waiting job for another reason than a request. By primary key.
UPDATE rota_job SET state = 'cancelled', reason = :reason, finished_at = :now, updated_at = :now
WHERE id = :id AND state IN ('blocked', 'scheduled', 'pending', 'queued', 'retrying')

-- name: failure_templates
-- Select the follow-ups for failures of some jobs. By primary key.
SELECT id, on_failure, meta FROM rota_job
WHERE id IN (SELECT value FROM json_each(?)) AND on_failure IS NOT NULL
ORDER BY id

-- name: keep_ends_of_nodes
-- Note how jobs ended that are about to be deleted, if they belong to workflows. Index: rota_workflow_node_job.
UPDATE rota_workflow_node
SET state = (SELECT job.state FROM rota_job AS job WHERE job.id = rota_workflow_node.job_id),
    reason = (SELECT job.reason FROM rota_job AS job WHERE job.id = rota_workflow_node.job_id)
WHERE job_id IN (SELECT value FROM json_each(?))

-- name: workflows_of_jobs
-- Select the workflows to which some jobs belong. Index: rota_workflow_node_job.
SELECT DISTINCT workflow_id FROM rota_workflow_node WHERE job_id IN (SELECT value FROM json_each(?))

-- name: delete_empty_workflows
-- Delete those of some workflows whose jobs have all been deleted. By primary keys.
DELETE FROM rota_workflow
WHERE id IN (SELECT value FROM json_each(?)) AND NOT EXISTS (
    SELECT 1 FROM rota_workflow_node WHERE workflow_id = rota_workflow.id AND state IS NULL
)

-- name: delete_nodes_without_workflow
-- Delete the nodes of those of some workflows that were deleted. By primary keys.
DELETE FROM rota_workflow_node
WHERE workflow_id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM rota_workflow WHERE rota_workflow.id = rota_workflow_node.workflow_id)
