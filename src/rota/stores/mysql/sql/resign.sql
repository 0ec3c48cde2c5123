-- Give the lead up; the term is kept, so that it goes on growing.
UPDATE leader SET until = 0 WHERE name = %(name)s AND holder = %(holder)s
