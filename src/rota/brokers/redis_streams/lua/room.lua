-- Give the lanes of a queue that somebody takes jobs from, and how many entries nobody has taken yet
-- of each band.
-- A lane that nobody has asked for in a long time is forgotten, with its streams if they are empty.
-- KEYS: the lanes. ARGV: what every stream of the queue begins with, the group, how long a lane is fresh and how long it
-- is remembered, the bands.
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
