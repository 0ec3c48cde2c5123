-- Take away leases that are as they were given: under this fence, and nobody has asked their jobs to stop. By primary key,
-- for which a hint is needed: see leave_ready_range.
DELETE lease FROM lease FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s AND fence = %(fence)s AND cancel_requested_at IS NULL AND expires_at IS NULL
