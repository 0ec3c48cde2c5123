-- Give the lead up; the term is kept, so that it goes on growing. By primary key.
UPDATE leader SET until = 0 WHERE name = $1::text AND holder = $2::text
