-- Take or keep the lead if nobody else holds it. By primary key. The term first: it looks at the holder before.
UPDATE leader
SET term = term + (holder <> %(holder)s), holder = %(holder)s, until = %(until)s
WHERE name = %(name)s AND (holder = %(holder)s OR until <= %(now)s)
