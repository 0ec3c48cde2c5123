-- name: save_member
-- Record the heartbeat of a process. By primary key.
INSERT INTO rota_member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
) VALUES (
    :boot, :role, :name, :host, :pid, :version, :address, :queues, :types, :slots, :busy, :is_draining,
    coalesce(:started_at, :now), :now
)
ON CONFLICT (boot) DO UPDATE
SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid, version = excluded.version,
    address = excluded.address, queues = excluded.queues, types = excluded.types, slots = excluded.slots,
    busy = excluded.busy, is_draining = excluded.is_draining, started_at = coalesce(:started_at, started_at),
    seen_at = excluded.seen_at

-- name: members_seen_since
-- Select the processes seen since a time.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
FROM rota_member
WHERE (:role IS NULL OR role = :role) AND seen_at >= :since
ORDER BY name, started_at, boot

-- name: delete_members
-- Delete processes that stopped in order. By primary key.
DELETE FROM rota_member WHERE boot IN (SELECT value FROM json_each(?))

-- name: take_leadership
-- Acquire or extend leadership unless another process holds it. The term grows with each change. By primary key.
INSERT INTO rota_leader (name, holder, term, until) VALUES (:name, :holder, 1, :until)
ON CONFLICT (name) DO UPDATE
SET term = term + (holder <> excluded.holder), holder = excluded.holder, until = excluded.until
WHERE holder = excluded.holder OR until <= :now

-- name: leadership_by_name
-- Read a leadership record. By primary key.
SELECT name, holder, term, until FROM rota_leader WHERE name = ?

-- name: resign_leadership
-- Give up leadership; the term is kept, so that it keeps growing. By primary key.
UPDATE rota_leader SET until = 0 WHERE name = ? AND holder = ?
