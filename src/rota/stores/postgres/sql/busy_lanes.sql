-- Say in which lanes the most urgent jobs stand. Holds nothing. Served by job_turn.
WITH {urgent_lanes}
SELECT queue, type FROM lane
