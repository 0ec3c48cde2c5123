-- Give the ids of one lane that will be delivered: they wait in a stream, or are pending for a reader.
-- An entry that was delivered and is pending for no consumer (it was deleted) is removed. So is a consumer that was idle
-- for long, if nothing is pending for it.
-- KEYS: streams. ARGV: the group, the most entries, the milliseconds after which an idle consumer is removed.
-- Returns false if there are more entries than that.
local most = tonumber(ARGV[2])
local present = {}

local function parts(id)
    local time, number = string.match(id, '(%d+)-(%d+)')
    return tonumber(time), tonumber(number)
end

local function is_after(id, other)
    local time, number = parts(id)
    local other_time, other_number = parts(other)
    return time > other_time or (time == other_time and number > other_number)
end

local function named(flat)
    local fields = {}
    for place = 1, #flat, 2 do
        fields[flat[place]] = flat[place + 1]
    end
    return fields
end

for _, stream in ipairs(KEYS) do
    if redis.call('EXISTS', stream) == 1 then
        local entries = redis.call('XRANGE', stream, '-', '+', 'COUNT', most + 1)
        if #entries > most then
            return false
        end
        local last = nil
        for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
            local group = named(flat)
            if group['name'] == ARGV[1] then
                last = group['last-delivered-id']
            end
        end
        local with_reader = {}
        if last then
            local held = redis.call('XPENDING', stream, ARGV[1], '-', '+', most + 1)
            if #held > most then
                return false
            end
            for _, one in ipairs(held) do
                with_reader[one[1]] = true
            end
            for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, ARGV[1])) do
                local consumer = named(flat)
                if consumer['pending'] == 0 and consumer['idle'] > tonumber(ARGV[3]) then
                    redis.call('XGROUP', 'DELCONSUMER', stream, ARGV[1], consumer['name'])
                end
            end
        end
        for _, entry in ipairs(entries) do
            if not last or with_reader[entry[1]] or is_after(entry[1], last) then
                present[#present + 1] = entry[2][2]
            else
                redis.call('XDEL', stream, entry[1])
            end
        end
    end
end
return present
