-- Give the states of jobs by id as they are now, and keep them so; one that runs has the state it was claimed in. By
-- primary key. For jobs that a guest's transaction, which may look at an older moment, does not see. Leases are left
-- alone: to lock one that is not there would keep others from claiming.
SELECT id, state FROM job WHERE id IN %(ids)s LOCK IN SHARE MODE
