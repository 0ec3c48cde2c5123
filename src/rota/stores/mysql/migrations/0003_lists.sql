-- Lists walked back over all jobs and filtered: with millions of them, half a second for a page. By this index a list of
-- jobs that wait for their time is read from its end. On MariaDB this can be repeated, should it have been cut off.
ALTER TABLE scheduled ADD KEY /*M! IF NOT EXISTS */ scheduled_state (state, id);
