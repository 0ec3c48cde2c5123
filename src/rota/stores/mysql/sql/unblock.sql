-- Write down what the end of others has made of a blocked job that we keep locked. By primary key.
UPDATE job SET state = %s, blockers = %s, turn = %s, run_at = %s, updated_at = %s WHERE id = %s
