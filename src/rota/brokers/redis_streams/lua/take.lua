-- Take ids from the streams of one queue, in the order of KEYS. A lost group is created again at 0.
-- Dispatchers are notified when a stream has few entries.
-- KEYS: streams. ARGV: the group, the consumer, the limit, the channel, below which number entries are few.
-- Returns triples of a stream's index in KEYS, the entry and the job's id.
local left = tonumber(ARGV[3])
local taken = {}
local is_low = false

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
        is_low = is_low or waiting < tonumber(ARGV[5])
    end
end
if is_low then
    redis.call('PUBLISH', ARGV[4], 'r')
end
return taken
