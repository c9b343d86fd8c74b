-- Ends claims on stream entries, each atomically and fenced by its entry.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, dlq, cancelled, leases, queues,
--       target, scheduled and blocked of the queue where chains go on, then per settlement the KEYS of a change
-- ARGV  channel, group, queue, the queue where chains go on ('' if none does), mode ('settle' or 'rescue'), default
--       lease in ms, then per settlement: entry, and the ARGV of a change
-- In mode 'rescue' an entry is taken only if its consumer's lease has run out.
-- Returns 1 accepted or 0 lease lost, for each; then the errands that are owed.
local h, group, mode = home(), ARGV[2], ARGV[5]
local q = { kind = 's', name = ARGV[3], target = KEYS[6], scheduled = KEYS[7], dlq = KEYS[8], cancelled = KEYS[9],
  jobs = h.jobs }
q.next = { kind = 's', name = ARGV[4], target = KEYS[12], scheduled = KEYS[13], blocked = KEYS[14], jobs = h.jobs }
local out, i, k = {}, 7, 15
expect_home(h)
expect_queue(q)
expect(q.cancelled, 'hash')
expect(KEYS[10], 'hash')
expect(KEYS[11], 'set')
if q.next.name ~= '' then expect_queue(q.next) end
local all = {}
while i <= #ARGV do
  local entry, s = ARGV[i], nil
  s, i, k = read_change(i + 1, k)
  s.entry = entry
  all[#all + 1] = s
end
for n, s in ipairs(all) do
  local entry, expired = s.entry, true
  if mode == 'rescue' then
    local pending = lease(q.target, group, entry)
    local worker = pending and string.gsub(pending[2], '%+held$', '')
    expired = pending and pending[3] >= (tonumber(redis.call('HGET', KEYS[10], worker) or '') or tonumber(ARGV[6]))
  end
  local accepted = expired and redis.call('XACK', q.target, group, entry) or 0
  if accepted == 1 then
    redis.call('XDEL', q.target, entry)
    s.lost = mode == 'rescue'
    if s.lost then h.ended[#h.ended + 1] = 'lost ' .. s.id end
    apply(q, h, s)
  end
  out[n] = accepted
end
if q.next.name ~= '' then redis.call('SADD', KEYS[11], 's ' .. q.next.name) end
announce(q, h.channel)
announce(q.next, h.channel)
publish_ends(h)
return with_owed(out, h)
