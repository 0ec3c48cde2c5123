-- Say what the leases that are made next have in common.
SET @worker = %(worker)s, @boot = %(boot)s, @lease_until = %(lease_until)s, @now = %(now)s
