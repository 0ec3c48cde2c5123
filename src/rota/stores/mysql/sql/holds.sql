-- Say whether a job still runs under a fence, and keep it so until we are done. By primary key.
SELECT 1 FROM lease WHERE id = %(id)s AND fence = %(fence)s FOR UPDATE
