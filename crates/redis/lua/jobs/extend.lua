-- Extends leases on stream entries: resets their idle time if this worker still holds them. XCLAIM
-- alone would take an entry back from its new owner; JUSTID keeps the delivery count.
-- KEYS  stream, leases, cancelled
-- ARGV  group, worker, lease in ms, then per lease: entry, chain
-- A cancellation is recorded under the job's chain, or under its entry if the job is not in the
-- index.
-- Returns for each: 1 held, 2 held and cancelled, 0 lost.
local group, worker, out = ARGV[1], ARGV[2], {}
expect_type(KEYS[1], 'stream')
expect_type(KEYS[3], 'hash')
redis.call('HSET', KEYS[2], worker, ARGV[3])
local some_cancelled = redis.call('EXISTS', KEYS[3]) == 1
for i = 4, #ARGV, 2 do
  local n, entry = (i - 2) / 2, ARGV[i]
  local pending = pending_entry(KEYS[1], group, entry)
  local mine = pending and (pending[2] == worker or pending[2] == worker .. '+held')
  if mine and #redis.call('XCLAIM', KEYS[1], group, pending[2], 0, entry, 'JUSTID') == 1 then
    local noted = some_cancelled and redis.call('HMGET', KEYS[3], ARGV[i + 1], entry)
    out[n] = noted and (noted[1] or noted[2]) and 2 or 1
  else
    out[n] = 0
  end
end
return out
