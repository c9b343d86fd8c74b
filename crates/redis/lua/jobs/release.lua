-- Ends claims on jobs taken from a list, each atomically and fenced by its lock. Token '0': never locked.
-- KEYS  target, scheduled, dlq, jobs, cancelled, running, then per settlement: lock, record
-- ARGV  queue, channel, sooner message, mode ('settle' or 'rescue'),
--       then per settlement: token, job id, tracked ('1' or '0'), op, data, ms
-- In mode 'rescue' a job is let go only if its lock is gone and the trace of it is still the same.
-- Returns 1 accepted or 0 lease lost, for each.
local mode = ARGV[4]
local q = { kind = 'l', name = ARGV[1], channel = ARGV[2], target = KEYS[1], scheduled = KEYS[2],
  dlq = KEYS[3], jobs = KEYS[4], cancelled = KEYS[5] }
local out, sooner = {}, false
expect_queue(q)
for i = 5, #ARGV, 6 do
  local n = (i + 1) / 6
  local token, id, lock = ARGV[i], ARGV[i + 1], KEYS[5 + 2 * n]
  local held = redis.call('GET', lock)
  if mode == 'rescue' then
    local trace = redis.call('HGET', KEYS[6], id)
    out[n] = (not held and trace and string.match(trace, '^%d+') == token) and 1 or 0
  else
    out[n] = (token == '0' or held == token) and 1 or 0
  end
  if out[n] == 1 then
    if token ~= '0' then
      redis.call('DEL', lock)
      redis.call('HDEL', KEYS[6], id)
    end
    local s = { id = id, tracked = ARGV[i + 2] == '1', op = ARGV[i + 3], data = ARGV[i + 4],
      ms = tonumber(ARGV[i + 5]), record = KEYS[6 + 2 * n] }
    if apply(q, s) then sooner = true end
  end
end
if sooner then redis.call('PUBLISH', q.channel, ARGV[3]) end
return out
