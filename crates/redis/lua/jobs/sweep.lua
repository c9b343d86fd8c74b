-- Of pops whose worker has not come back in time, makes the jobs ones whose lock has run out: a rescue decides what becomes
-- of them. A job that cannot be found by its id is lost, as it would be with a worker that had begun it.
-- KEYS  running, takers
-- ARGV  how many pops at most
-- Returns how many there were.
local running, takers, time = KEYS[1], KEYS[2], redis.call('TIME')
expect(running, 'hash')
local token = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
local late = redis.call('ZRANGEBYSCORE', takers, '-inf', whole(now()), 'LIMIT', 0, ARGV[1])
for _, mark in ipairs(late) do
  local taken, worker = string.gsub(takers, 'takers$', 'taken:' .. string.gsub(mark, '%%', '%%%%')), string.match(mark, '^(.*):')
  -- What is no list holds no jobs, and stays as it is.
  local copies = redis.pcall('LRANGE', taken, 0, -1)
  for _, envelope in ipairs(copies) do
    local id = id_in(envelope)
    if id and not string.find(envelope, '"tracked":false', 1, true) then
      redis.call('HSETNX', running, id, token .. ' ' .. worker .. ' ' .. envelope)
    end
  end
  if not copies.err then redis.call('DEL', taken) end
  redis.call('ZREM', takers, mark)
end
return #late
