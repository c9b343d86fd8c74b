-- Reads blocked jobs. Writes nothing.
-- KEYS  the waits of each job
-- ARGV  maximum number of chains to return for each
-- Returns for each job: job id, queue, envelope, due time in ms, origin, then the open chains:
-- 'POSITION -CHAIN', or 'POSITION ?CHAIN' if not registered yet. Nothing for a job that is not
-- blocked.
local out = {}
for n, waits in ipairs(KEYS) do
  local about = redis.call('HMGET', waits, 'job', 'queue', 'envelope', 'at', 'origin')
  out[n] = {}
  if about[1] then
    out[n] = about
    local open = {}
    for _, field in ipairs(redis.call('HKEYS', waits)) do
      local position = string.match(field, '^w(%d+)$')
      if position and #position < 10 then open[#open + 1] = tonumber(position) end
    end
    table.sort(open)
    for i = 1, math.min(#open, tonumber(ARGV[1])) do
      about[#about + 1] = open[i] .. ' ' .. (redis.call('HGET', waits, 'w' .. open[i]) or '?')
    end
  end
end
return out
