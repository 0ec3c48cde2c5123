-- Tell the server's time in microseconds, whatever its time zone.
SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))
