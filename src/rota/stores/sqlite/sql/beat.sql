-- Record that a process is alive, as it describes itself. By primary key.
INSERT INTO member (
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
