-- Say how many jobs have been pruned, by the state they ended in.
SELECT state, count FROM pruned
