-- Take a named lock, and keep it until the connection ends, so that whoever wants it waits.
SELECT GET_LOCK(%(bed)s, 0)
