-- name: insert_workflow
-- Store a new workflow.
INSERT INTO rota_workflow (id, name, policy, nodes, created_at)
VALUES (%(id)s, %(name)s, %(policy)s, %(nodes)s, %(now)s);

-- name: insert_workflow_node
-- Store a node of a workflow with its job.
INSERT INTO rota_workflow_node (workflow_id, position, job_id, name, parents, runs_after_failure)
VALUES (%s, %s, %s, %s, %s, %s);

-- name: workflows_by_id
-- Read workflows by id. Primary key.
SELECT id, name, policy, nodes, created_at FROM rota_workflow WHERE id IN %(keys)s ORDER BY id DESC;

-- name: workflows_before
-- Read workflows, newest first. Primary key.
SELECT id, name, policy, nodes, created_at FROM rota_workflow
WHERE id < %(before)s ORDER BY id DESC LIMIT %(limit)s;

-- name: workflow_counts
-- Count the current nodes of some workflows by the state of their jobs. Primary keys.
SELECT
    node.workflow_id,
    coalesce(node.state, IF(lease.id IS NULL, job.state, 'running')) AS shown_state,
    IF(node.state IS NULL, IF(lease.id IS NULL, job.reason, NULL), node.reason) AS shown_reason,
    node.is_skipped,
    count(*)
FROM rota_workflow_node AS node FORCE INDEX (PRIMARY)
    LEFT JOIN rota_job AS job ON job.id = node.job_id
    LEFT JOIN rota_lease AS lease ON lease.id = node.job_id
WHERE node.workflow_id IN %(keys)s AND node.replaced_by IS NULL
GROUP BY node.workflow_id, shown_state, shown_reason, node.is_skipped;

-- name: workflow_nodes
-- Read the nodes of a workflow with what is known of their jobs. Primary keys.
SELECT {workflow_node_columns}
FROM rota_workflow_node AS node FORCE INDEX (PRIMARY)
    LEFT JOIN rota_job AS job ON job.id = node.job_id
    LEFT JOIN rota_lease AS lease ON lease.id = node.job_id
WHERE node.workflow_id = %(id)s
ORDER BY node.position, node.job_id;

-- name: workflow_nodes_of_jobs
-- Read the nodes of some jobs. Served by rota_workflow_node_job.
SELECT {workflow_node_columns}
FROM rota_workflow_node AS node FORCE INDEX (rota_workflow_node_job)
    LEFT JOIN rota_job AS job ON job.id = node.job_id
    LEFT JOIN rota_lease AS lease ON lease.id = node.job_id
WHERE node.job_id IN %(keys)s
ORDER BY node.job_id;

-- name: lock_current_nodes
-- Lock and read those of some jobs that are the current ones of nodes of a workflow. Served by rota_workflow_node_job.
SELECT job_id FROM rota_workflow_node FORCE INDEX (rota_workflow_node_job)
WHERE job_id IN %(ids)s AND workflow_id = %(workflow_id)s AND replaced_by IS NULL
ORDER BY job_id
FOR UPDATE;

-- name: replace_workflow_node
-- Note that another job runs in place of a node's job. Served by rota_workflow_node_job.
UPDATE rota_workflow_node SET replaced_by = %s WHERE job_id = %s;

-- name: skip_workflow_nodes
-- Note that nodes were skipped. Primary key.
UPDATE rota_workflow_node SET is_skipped = 1
WHERE workflow_id = %(workflow_id)s AND position IN %(positions)s AND replaced_by IS NULL;

-- name: jobs_that_fail_fast
-- Read the other unfinished jobs of workflows that fail fast, given jobs that failed: those that are not there for a
-- failure. Served by rota_workflow_node_job, then by primary keys.
SELECT DISTINCT other.job_id
FROM rota_workflow_node AS failed FORCE INDEX (rota_workflow_node_job)
    STRAIGHT_JOIN rota_workflow AS workflow ON workflow.id = failed.workflow_id AND workflow.policy = 'fail_fast'
    STRAIGHT_JOIN rota_workflow_node AS other FORCE INDEX (PRIMARY) ON other.workflow_id = failed.workflow_id
    STRAIGHT_JOIN rota_job AS job ON job.id = other.job_id AND job.finished_at IS NULL
WHERE failed.job_id IN %(ids)s AND failed.replaced_by IS NULL AND other.replaced_by IS NULL
    AND other.runs_after_failure = 0
ORDER BY other.job_id;

-- name: request_cancel_each
-- Ask jobs to stop if they run, under whatever fence. Primary key; JSON table: see delete_ready.
UPDATE JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS asked
    STRAIGHT_JOIN rota_lease AS lease FORCE INDEX (PRIMARY) ON lease.id = asked.id
SET lease.cancel_requested_at = coalesce(lease.cancel_requested_at, %(now)s), lease.updated_at = %(now)s;

-- name: failure_templates
-- Read the follow-ups for failures of some jobs. Primary key.
SELECT id, on_failure, meta FROM rota_job WHERE id IN %(ids)s AND on_failure IS NOT NULL ORDER BY id;

-- name: reasons_of_jobs
-- Read why cancelled jobs ended. Primary key.
SELECT id, reason FROM rota_job WHERE id IN %(ids)s AND reason IS NOT NULL;

-- name: workflows_of_jobs
-- Read the workflows to which some jobs belong. Served by rota_workflow_node_job.
SELECT DISTINCT workflow_id FROM rota_workflow_node FORCE INDEX (rota_workflow_node_job) WHERE job_id IN %(ids)s;

-- name: keep_ends_of_nodes
-- Note how jobs ended that are about to be deleted, if they belong to workflows. Served by rota_workflow_node_job.
UPDATE JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_workflow_node AS node FORCE INDEX (rota_workflow_node_job) ON node.job_id = pruned_job.id
    STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = pruned_job.id
SET node.state = job.state, node.reason = job.reason;

-- name: empty_workflows
-- Of some workflows, read those whose jobs have all been deleted. Primary keys.
SELECT id FROM rota_workflow AS workflow
WHERE id IN %(ids)s AND NOT EXISTS (
    SELECT 1 FROM rota_workflow_node AS node WHERE node.workflow_id = workflow.id AND node.state IS NULL
);

-- name: delete_workflows
-- Delete workflows. Primary key.
DELETE FROM rota_workflow WHERE id IN %(ids)s;

-- name: delete_workflow_nodes
-- Delete the nodes of workflows. Primary key.
DELETE FROM rota_workflow_node WHERE workflow_id IN %(ids)s;
