-- Look at rates, or take starts from all of them or none: the generic cell rate algorithm.
-- KEYS: one for each limit. ARGV: the store's time, 'look' or 'take', and for each limit the starts, and for each of two
-- rates the ceiling of the store, the interval (0 for no rate), the burst, and by how much a ceiling is raised.
-- A value holds the server's run id and the ceilings for which it is valid: one that a former server has written, or
-- for which the store has other ceilings by now, may miss starts, so the ceilings count instead.
-- Returns the arrival times, or the new ceilings; nothing if a rate does not allow the starts. Times are in microseconds.
local now = tonumber(ARGV[1])
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local answer = {}
local values = {}
for place, key in ipairs(KEYS) do
    local first = 3 + (place - 1) * 9
    local starts = tonumber(ARGV[first])
    local held = {}
    for word in string.gmatch(redis.call('GET', key) or '', '%S+') do
        held[#held + 1] = word
    end
    local is_valid = held[1] == run and held[2] == ARGV[first + 1] and held[3] == ARGV[first + 5]
    local arrivals = {}
    local ceilings = {}
    for number = 1, 2 do
        local at = first + 1 + (number - 1) * 4
        local ceiling, interval = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
        local arrival = is_valid and tonumber(held[3 + number]) or ceiling
        if ARGV[2] == 'take' and interval > 0 then
            local latest = now + tonumber(ARGV[at + 2]) * interval
            arrival = math.min(math.max(arrival, now), latest) + starts * interval
            if arrival > latest then
                return {}
            end
            if arrival > ceiling then
                ceiling = arrival + tonumber(ARGV[at + 3])
            end
        end
        arrivals[number] = string.format('%.0f', arrival)
        ceilings[number] = string.format('%.0f', ceiling)
    end
    local found = ARGV[2] == 'take' and ceilings or arrivals
    answer[#answer + 1] = found[1]
    answer[#answer + 1] = found[2]
    local lasts = math.max(tonumber(ceilings[1]), tonumber(ceilings[2])) - now
    values[place] = {table.concat({run, ceilings[1], ceilings[2], arrivals[1], arrivals[2]}, ' '), lasts}
end
if ARGV[2] == 'take' then
    for place, key in ipairs(KEYS) do
        redis.call('SET', key, values[place][1], 'PX', math.max(math.floor(values[place][2] / 1000), 0) + 1000)
    end
end
return answer
