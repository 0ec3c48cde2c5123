-- Forget processes that vanished.
DELETE FROM member WHERE seen_at <= $1::bigint
