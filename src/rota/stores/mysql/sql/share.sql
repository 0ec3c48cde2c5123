-- Say what the jobs that are stored next have in common.
SET @type = %(type)s, @queue = %(queue)s, @priority = %(priority)s, @turn = %(turn)s, @run_at = %(run_at)s,
    @now = %(now)s, @max_attempts = %(max_attempts)s, @delivery = %(delivery)s
