-- Give jobs whose time has come, the earliest first. By primary key.
SELECT id FROM scheduled FORCE INDEX (PRIMARY) WHERE run_at <= %(now)s ORDER BY run_at, id LIMIT %(limit)s
