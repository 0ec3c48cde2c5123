-- Delete finished jobs. The state is asked again: nothing unfinished is ever deleted. By primary key.
DELETE job FROM job FORCE INDEX (PRIMARY) WHERE id IN %(ids)s AND finished_at IS NOT NULL
