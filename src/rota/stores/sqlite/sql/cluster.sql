-- name: upsert_member
-- Record the heartbeat of a process. By primary key.
INSERT INTO rota_member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at, facts
) VALUES (
    :boot, :role, :name, :host, :pid, :version, :address, :queues, :types, :slots, :busy, :is_draining,
    coalesce(:started_at, :now), :now, :facts
)
ON CONFLICT (boot) DO UPDATE
SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid, version = excluded.version,
    address = excluded.address, queues = excluded.queues, types = excluded.types, slots = excluded.slots,
    busy = excluded.busy, is_draining = excluded.is_draining, started_at = coalesce(:started_at, started_at),
    seen_at = excluded.seen_at, facts = excluded.facts

-- name: members
-- Select the processes seen since a time.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at, facts,
    orders
FROM rota_member
WHERE (:role IS NULL OR role = :role) AND seen_at >= :since
ORDER BY name, started_at, boot

-- name: delete_members
-- Delete processes that stopped in order. By primary key.
DELETE FROM rota_member WHERE boot IN (SELECT value FROM json_each(:keys))

-- name: renew_or_take_leadership
-- Extend leadership, or take it once it has lapsed. The term grows with each change. By primary key.
UPDATE rota_leader SET term = term + (holder <> :holder), holder = :holder, until = :until
WHERE name = :name AND (holder = :holder OR until <= :now)

-- name: insert_leadership
-- Take a leadership that no process has held before. By primary key.
INSERT OR IGNORE INTO rota_leader (name, holder, term, until) VALUES (:name, :holder, 1, :until)

-- name: leader
-- Read a leadership record. By primary key.
SELECT name, holder, term, until FROM rota_leader WHERE name = :name

-- name: resign_leadership
-- Give up leadership; the term is kept, so that it keeps growing. By primary key.
UPDATE rota_leader SET until = 0 WHERE name = :name AND holder = :holder

-- name: configuration
-- Read the shared configuration. Few rows.
SELECT key, value, version FROM rota_configuration

-- name: save_configuration
-- Set or remove (NULL) a key of the shared configuration. By primary key.
INSERT INTO rota_configuration (key, value, version) VALUES (:key, :value, 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = version + 1

-- name: orders_for_members
-- Select the orders for processes that have some. By primary key.
SELECT boot, orders FROM rota_member WHERE boot IN (SELECT value FROM json_each(:keys)) AND orders IS NOT NULL

-- name: set_orders
-- Set the orders for a process, if they are as they were read. By primary key.
UPDATE rota_member SET orders = :orders WHERE boot = :boot AND coalesce(orders, '') = :was
