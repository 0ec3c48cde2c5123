-- Delete a consumer that says goodbye, where nothing is with it: what is with it would be lost to everybody.
-- KEYS: streams. ARGV: the group, the consumer.
for _, stream in ipairs(KEYS) do
    local held = redis.pcall('XPENDING', stream, ARGV[1], '-', '+', 1, ARGV[2])
    if not held.err and #held == 0 then
        redis.pcall('XGROUP', 'DELCONSUMER', stream, ARGV[1], ARGV[2])
    end
end
return 0
