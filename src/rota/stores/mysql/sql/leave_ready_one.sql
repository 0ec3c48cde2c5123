-- Let a job stand no longer where it can be claimed. By primary key, for which a hint is needed: see leave_ready_range.
DELETE ready FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s AND turn = %(first_turn)s AND id = %(first_id)s
