-- Add jobs of one queue to streams, and notify the readers. The group begins at 0, before all entries.
-- KEYS: streams. ARGV: the group, the channel, the queue, and pairs of a stream's place in KEYS and a job's id.
for _, stream in ipairs(KEYS) do
    if redis.call('EXISTS', stream) == 0 then
        redis.call('XGROUP', 'CREATE', stream, ARGV[1], '0', 'MKSTREAM')
    end
end
for place = 4, #ARGV, 2 do
    redis.call('XADD', KEYS[tonumber(ARGV[place])], '*', 'id', ARGV[place + 1])
end
redis.call('PUBLISH', ARGV[2], 'w' .. ARGV[3])
return 0
