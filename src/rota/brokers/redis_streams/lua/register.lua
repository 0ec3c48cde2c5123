-- Register lanes of a queue as read. Dispatchers are notified of new ones.
-- KEYS: the set of lanes. ARGV: the channel, for how many seconds a registration holds, types.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local is_new = false
for place = 3, #ARGV do
    local seen = redis.call('ZSCORE', KEYS[1], ARGV[place])
    if not seen or now - tonumber(seen) > tonumber(ARGV[2]) then
        is_new = true
    end
    redis.call('ZADD', KEYS[1], now, ARGV[place])
end
if is_new then
    redis.call('PUBLISH', ARGV[1], 'r')
end
return is_new and 1 or 0
