-- Forget processes that said goodbye. By primary key.
DELETE FROM member WHERE boot = ANY($1::text[])
