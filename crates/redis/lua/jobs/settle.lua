-- Ends claims on stream entries, each atomically and fenced by its entry.
-- KEYS  target, scheduled, dlq, jobs, cancelled, leases, then the record key of each settlement
-- ARGV  group, queue, channel, sooner message, mode ('settle' or 'rescue'), default lease in ms,
--       then per settlement: entry, job id, tracked ('1' or '0'), op, data, ms
-- In mode 'rescue' an entry is taken only if its consumer's lease has run out.
-- Returns 1 accepted or 0 lease lost, for each.
local group, mode = ARGV[1], ARGV[5]
local q = { kind = 's', name = ARGV[2], channel = ARGV[3], target = KEYS[1], scheduled = KEYS[2],
  dlq = KEYS[3], jobs = KEYS[4], cancelled = KEYS[5] }
local out, sooner = {}, false
expect_queue(q)
for i = 7, #ARGV, 6 do
  local n, entry = (i - 1) / 6, ARGV[i]
  local expired = true
  if mode == 'rescue' then
    local pending = lease(q.target, group, entry)
    local worker = pending and string.gsub(pending[2], '%+held$', '')
    expired = pending and pending[3] >= tonumber(redis.call('HGET', KEYS[6], worker) or ARGV[6])
  end
  out[n] = expired and redis.call('XACK', q.target, group, entry) or 0
  if out[n] == 1 then
    redis.call('XDEL', q.target, entry)
    local s = { id = ARGV[i + 1], tracked = ARGV[i + 2] == '1', op = ARGV[i + 3], data = ARGV[i + 4],
      ms = tonumber(ARGV[i + 5]), record = KEYS[6 + n] }
    if apply(q, s) then sooner = true end
  end
end
if sooner then redis.call('PUBLISH', q.channel, ARGV[4]) end
return out
