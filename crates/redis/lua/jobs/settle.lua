-- Settles jobs of stream entries, each atomically and fenced by its entry.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, dlq, cancelled, leases, queues,
--       target, scheduled and blocked of the queue where chains continue, then per settlement the
--       KEYS of a change
-- ARGV  channel, group, queue, the queue where chains continue ('' if none does), mode ('settle' or
--       'rescue'), default lease in ms, then per settlement: entry, and the ARGV of a change
-- Mode 'rescue' accepts an entry only if its consumer's lease has expired.
-- Returns for each: 1 accepted or 0 lease lost; then the outbox entries.
local shard, group, mode = shard_context(), ARGV[2], ARGV[5]
local queue = { kind = 's', name = ARGV[3], target = KEYS[6], scheduled = KEYS[7], dlq = KEYS[8],
  cancelled = KEYS[9],
  jobs = shard.jobs }
queue.next = { kind = 's', name = ARGV[4], target = KEYS[12], scheduled = KEYS[13], blocked = KEYS[14],
  jobs = shard.jobs }
local out, i, k = {}, 7, 15
expect_shard(shard)
expect_queue(queue)
expect_type(queue.cancelled, 'hash')
expect_type(KEYS[10], 'hash')
expect_type(KEYS[11], 'set')
if queue.next.name ~= '' then expect_queue(queue.next) end
local all = {}
while i <= #ARGV do
  local entry, settlement = ARGV[i], nil
  settlement, i, k = read_change(i + 1, k)
  settlement.entry = entry
  all[#all + 1] = settlement
end
for n, settlement in ipairs(all) do
  local entry, expired = settlement.entry, true
  if mode == 'rescue' then
    local pending = pending_entry(queue.target, group, entry)
    local worker = pending and string.gsub(pending[2], '%+held$', '')
    expired = pending and pending[3] >= (tonumber(redis.call('HGET', KEYS[10], worker) or '')
      or tonumber(ARGV[6]))
  end
  local accepted = expired and redis.call('XACK', queue.target, group, entry) or 0
  if accepted == 1 then
    redis.call('XDEL', queue.target, entry)
    settlement.lost = mode == 'rescue'
    if settlement.lost then shard.ended[#shard.ended + 1] = 'lost ' .. settlement.id end
    apply_change(queue, shard, settlement)
  end
  out[n] = accepted
end
if queue.next.name ~= '' then redis.call('SADD', KEYS[11], 's ' .. queue.next.name) end
announce_earlier(queue, shard.channel)
announce_earlier(queue.next, shard.channel)
publish_ended(shard)
return with_outbox(out, shard)
