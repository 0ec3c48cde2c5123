-- Say whether a schedule is still at a version, and keep it so until we are done. By primary key.
SELECT 1 FROM schedule WHERE id = %(id)s AND version = %(version)s FOR UPDATE
