-- Append to the ledger; refused if somebody else did so at this moment.
INSERT INTO ledger (number, at, actor, action, target, origin, detail, digest)
VALUES (%(number)s, %(at)s, %(actor)s, %(action)s, %(target)s, %(origin)s, %(detail)s, %(digest)s)
