-- Take over entries that are pending for another reader for long: it is dead, or its acknowledgement was lost; then the
-- store refuses to claim the job a second time.
-- KEYS: streams. ARGV: the group, the consumer, the limit, the milliseconds. Returns the same as take.lua.
local left = tonumber(ARGV[3])
local taken = {}
for place, stream in ipairs(KEYS) do
    if left <= 0 then
        break
    end
    local answer = redis.pcall('XAUTOCLAIM', stream, ARGV[1], ARGV[2], ARGV[4], '0-0', 'COUNT', left)
    if not answer.err then
        for _, entry in ipairs(answer[2]) do
            if entry and entry[2] then
                taken[#taken + 1] = place
                taken[#taken + 1] = entry[1]
                taken[#taken + 1] = entry[2][2]
                left = left - 1
            end
        end
    end
end
return taken
