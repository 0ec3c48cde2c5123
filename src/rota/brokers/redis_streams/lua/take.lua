-- Take ids from the streams of one queue, in the order in which they are named. A group that was lost begins anew at 0.
-- Whoever dispatches is told when a line has become short.
-- KEYS: streams. ARGV: the group, the consumer, how many at most, the channel, what counts as short.
-- Gives triples of a stream's place in KEYS, the entry and the job's id.
local left = tonumber(ARGV[3])
local taken = {}
local is_short = false

local function read(stream)
    return redis.pcall('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', left, 'STREAMS', stream, '>')
end

for place, stream in ipairs(KEYS) do
    if left <= 0 then
        break
    end
    local answer = read(stream)
    if answer and answer.err and string.find(answer.err, 'NOGROUP', 1, true) then
        if redis.call('EXISTS', stream) == 1 then
            redis.call('XGROUP', 'CREATE', stream, ARGV[1], '0')
            answer = read(stream)
        else
            answer = false
        end
    end
    if answer and answer.err then
        return answer
    end
    if answer then
        for _, entry in ipairs(answer[1][2]) do
            taken[#taken + 1] = place
            taken[#taken + 1] = entry[1]
            taken[#taken + 1] = entry[2][2]
            left = left - 1
        end
        local waiting = redis.call('XLEN', stream) - redis.call('XPENDING', stream, ARGV[1])[1]
        is_short = is_short or waiting < tonumber(ARGV[5])
    end
end
if is_short then
    redis.call('PUBLISH', ARGV[4], 'r')
end
return taken
