-- Forget processes that vanished.
DELETE FROM `member` WHERE seen_at <= %(before)s
