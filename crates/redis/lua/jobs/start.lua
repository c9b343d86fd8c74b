-- Marks held stream entries as started: moves them from the worker's `+held` consumer to its own.
-- KEYS  stream
-- ARGV  group, worker, then entries
-- Returns 1 for each that this worker holds, else 0.
local group, worker, out = ARGV[1], ARGV[2], {}
for i = 3, #ARGV do
  local pending = pending_entry(KEYS[1], group, ARGV[i])
  out[i - 2] = 0
  if pending and pending[2] == worker then
    out[i - 2] = 1
  elseif pending and pending[2] == worker .. '+held' then
    out[i - 2] = #redis.call('XCLAIM', KEYS[1], group, worker, 0, ARGV[i], 'JUSTID')
  end
end
return out
