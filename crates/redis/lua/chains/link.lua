-- Adds jobs to a stream that are tied to others, by chains they wait for or by a deduplication key: each once, all of
-- them or none.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, queues, then per job: record;
--       receipt; waits if it has a mark
-- ARGV  channel, queue, life of a receipt in ms, then per job: id, due, envelope, key ('' if none), mark ('' if it
--       waits for nothing) and, with a mark, the number of blockers, then per blocker: how ('here', 'away' or
--       'told'), and its chain or what it told
-- Returns 1 for each job that is new or was made by an earlier try of the call, 0 for each that was there; then the
-- errands that are owed. Or, with nothing
-- written, a word and a chain: 'busy' if those that waited for it are still to be told, so that its id is not free
-- again yet; 'moved' if it was to be open here and is not.
local h = home()
local q = { kind = 's', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8], jobs = h.jobs }
expect_home(h)
expect_queue(q)
expect(KEYS[9], 'set')
local jobs, earlier, i, k = {}, {}, 4, 10
while i <= #ARGV do
  local j = { id = ARGV[i], chain = chain_of(ARGV[i]), due = ARGV[i + 1], envelope = ARGV[i + 2], key = ARGV[i + 3],
    mark = ARGV[i + 4], record = KEYS[k], origin = 'new', after = {} }
  j.receipt, i, k = KEYS[k + 1], i + 5, k + 2
  j.made = redis.call('EXISTS', j.receipt) == 1
  j.there = j.made or earlier[j.chain] or redis.call('HEXISTS', h.jobs, j.chain) == 1
    or redis.call('EXISTS', j.record) == 1
  if not j.there and redis.call('HEXISTS', h.notices, j.chain) == 1 then return { 'busy', j.chain } end
  if j.mark ~= '' then
    j.waits, k = KEYS[k], k + 1
    expect(j.waits, 'hash')
    local last = i + 2 * tonumber(ARGV[i])
    for n = i + 1, last, 2 do
      local how, value = ARGV[n], ARGV[n + 1]
      j.after[#j.after + 1] = { how, value }
      if how == 'here' and not (j.there or earlier[value] or is_open(h, value)) then return { 'moved', value } end
    end
    i = last + 1
  end
  earlier[j.chain], jobs[#jobs + 1] = true, j
end
local time, out = now(), {}
for n, j in ipairs(jobs) do
  out[n] = (j.made or not j.there) and 1 or 0
  if not j.there then
    j.at = due_at(j.due, time)
    if j.mark == '' then put(q, j.chain, true, j.envelope, j.at, time) else block(q, h, j, time) end
    if j.key ~= '' then redis.call('HSET', h.keyed, j.chain, j.key) end
    redis.call('SET', j.receipt, 1, 'PX', ARGV[3])
  end
end
redis.call('SADD', KEYS[9], 's ' .. q.name)
announce(q, h.channel)
return with_owed(out, h)
