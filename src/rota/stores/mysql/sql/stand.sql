-- Take a lead that nobody ever had; refused if somebody had. By primary key.
INSERT INTO leader (name, holder, term, until) VALUES (%(name)s, %(holder)s, 1, %(until)s)
