-- Acknowledge and delete entries atomically: a stream holds only entries that wait or are pending for a reader.
-- KEYS: streams. ARGV: the group, and pairs of a stream's place in KEYS and an entry.
for place = 2, #ARGV, 2 do
    local stream = KEYS[tonumber(ARGV[place])]
    redis.pcall('XACK', stream, ARGV[1], ARGV[place + 1])
    redis.call('XDEL', stream, ARGV[place + 1])
end
return 0
