-- Expires pops whose worker has not confirmed them in time: their jobs get running entries without
-- a lock, which a rescue settles. The suffix '+held' says that none of them has started. A job
-- without an index entry is lost, as it would be with a worker that had started it.
-- KEYS  running, takers
-- ARGV  maximum number of pops, approximate maximum bytes
-- Returns how many pops expired, and 1 if there is more to do, else 0.
local running, takers, time, bytes = KEYS[1], KEYS[2], redis.call('TIME'), tonumber(ARGV[2])
expect_type(running, 'hash')
local token = string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2]))
local late = redis.call('ZRANGEBYSCORE', takers, '-inf', int_text(now()), 'LIMIT', 0, ARGV[1])
for n, mark in ipairs(late) do
  local taken, worker = string.gsub(takers, 'takers$', 'taken:' .. string.gsub(mark, '%%', '%%%%')),
    string.match(mark, '^(.*):')
  -- A key that is no list holds no jobs, and stays as it is.
  local envelope = redis.pcall('RPOP', taken)
  while type(envelope) == 'string' do
    local id, tracked = id_in(envelope)
    if id and tracked then
      redis.call('HSETNX', running, id, token .. ' ' .. worker .. '+held ' .. envelope)
    end
    bytes = bytes - #envelope
    if bytes <= 0 then return { n - 1, 1 } end
    envelope = redis.pcall('RPOP', taken)
  end
  redis.call('ZREM', takers, mark)
end
return { #late, #late == tonumber(ARGV[1]) and 1 or 0 }
