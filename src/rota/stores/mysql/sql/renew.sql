-- Extend leases. By primary key.
UPDATE lease FORCE INDEX (PRIMARY) SET lease_until = %(lease_until)s WHERE id IN %(ids)s
