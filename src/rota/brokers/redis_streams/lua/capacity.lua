-- Give the lanes of a queue that have readers, and the number of untaken entries of each band.
-- A lane without a reader for a long time is removed, with its streams if they are empty.
-- KEYS: the set of lanes. ARGV: the prefix of the queue's streams, the group, for how many seconds a registration holds
-- and a lane is kept, the bands.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local lanes = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local found = {}
for place = 1, #lanes, 2 do
    local name, age = lanes[place], now - tonumber(lanes[place + 1])
    if age <= tonumber(ARGV[3]) then
        found[#found + 1] = name
        for band = 5, #ARGV do
            local stream = ARGV[1] .. name .. ':' .. ARGV[band]
            local length = redis.call('XLEN', stream)
            if length > 0 then
                local taken = redis.pcall('XPENDING', stream, ARGV[2])
                if not taken.err then
                    length = math.max(length - taken[1], 0)
                end
            end
            found[#found + 1] = length
        end
    elseif age > tonumber(ARGV[4]) then
        redis.call('ZREM', KEYS[1], name)
        for band = 5, #ARGV do
            local stream = ARGV[1] .. name .. ':' .. ARGV[band]
            if redis.call('XLEN', stream) == 0 then
                redis.call('DEL', stream)
            end
        end
    end
end
return found
