-- Delete a consumer that ends, where nothing is pending for it: its pending entries would be lost.
-- KEYS: streams. ARGV: the group, the consumer.
for _, stream in ipairs(KEYS) do
    local held = redis.pcall('XPENDING', stream, ARGV[1], '-', '+', 1, ARGV[2])
    if not held.err and #held == 0 then
        redis.pcall('XGROUP', 'DELCONSUMER', stream, ARGV[1], ARGV[2])
    end
end
return 0
