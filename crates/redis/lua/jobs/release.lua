-- Ends claims on jobs taken from a list, each atomically and fenced by its lock. One that was never locked has a token that
-- begins with 'u', which is noted if the job stays somewhere: so a repeat has no effect.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, dlq, cancelled, running, queues,
--       target, scheduled and blocked of the queue where chains go on, released, then per settlement: lock, the KEYS of a
--       change
-- ARGV  channel, queue, the queue where chains go on ('' if none does), mode ('settle' or 'rescue'),
--       life of a note in ms, then per settlement: token, and the ARGV of a change
-- In mode 'rescue' a job is let go only if its lock is gone and the trace of it is still the same.
-- Returns 1 accepted or 0 lease lost, for each; then the errands that are owed.
local h, mode = home(), ARGV[4]
local q = { kind = 'l', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], dlq = KEYS[8], cancelled = KEYS[9],
  jobs = h.jobs }
q.next = { kind = 's', name = ARGV[3], target = KEYS[12], scheduled = KEYS[13], blocked = KEYS[14], jobs = h.jobs }
local out, released, i, k = {}, KEYS[15], 6, 16
expect_home(h)
expect_queue(q)
expect(q.cancelled, 'hash')
expect(KEYS[10], 'hash')
expect(KEYS[11], 'set')
expect(released, 'zset')
if q.next.name ~= '' then expect_queue(q.next) end
local all = {}
while i <= #ARGV do
  local token, lock, s = ARGV[i], KEYS[k], nil
  s, i, k = read_change(i + 1, k + 1)
  s.token, s.lock = token, lock
  all[#all + 1] = s
end

-- Whether a claim of a job that was never locked ends now and has not ended before. What leaves nothing may end twice.
local time = now()
local function is_first(s)
  if s.op == 'finish' then return true end
  if redis.call('ZADD', released, 'NX', whole(time), s.token .. ' ' .. s.id) == 0 then return false end
  redis.call('PEXPIRE', released, ARGV[5])
  return true
end

for n, s in ipairs(all) do
  local token, unlocked, held, accepted = s.token, string.sub(s.token, 1, 1) == 'u', redis.pcall('GET', s.lock), false
  if mode == 'rescue' then
    local trace = redis.call('HGET', KEYS[10], s.id)
    accepted = not held and trace and string.match(trace, '^%d+') == token
  else
    accepted = unlocked and is_first(s) or held == token
  end
  if accepted then
    if not unlocked then
      redis.call('DEL', s.lock)
      redis.call('HDEL', KEYS[10], s.id)
    end
    s.lost = mode == 'rescue'
    if s.lost then h.ended[#h.ended + 1] = 'lost ' .. s.id end
    apply(q, h, s)
  end
  out[n] = accepted and 1 or 0
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', released, '-inf', whole(time - tonumber(ARGV[5])), 'LIMIT', 0, 1000)) do
  redis.call('ZREM', released, old)
end
if q.next.name ~= '' then redis.call('SADD', KEYS[11], 's ' .. q.next.name) end
announce(q, h.channel)
announce(q.next, h.channel)
publish_ends(h)
return with_owed(out, h)
