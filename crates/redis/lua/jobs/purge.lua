-- Deletes waiting jobs, a bounded number: scheduled ones, then ready ones. Entries up to the group's position are pending and
-- stay, and so does what runs go on by. Runs that wait for what is deleted are told.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: kind ('s' or 'l'), queue, limit, how many scheduled jobs to pass over, the entry to
--       begin behind ('0-0': at the group's position), and what a run is told of an activity that was taken away: what stands
--       before and after the number
-- Returns how many were deleted, how many were looked at, how many scheduled ones stay, and the entry to go on behind; then the
-- errands that are owed.
local w = world(home(), 2)
local q, limit, skip, from = queue(w, w.read(), w.read()), tonumber(w.read()), tonumber(w.read()), w.read()
local says, scheduled, ready, count, kept = { w.read(), w.read() }, {}, {}, 0, 0
expect_home(w.h)
expect(q.scheduled, 'zset')
expect(q.dropped, 'hash')

-- A job with what a run is told of it, which is found out before anything is written.
local function seen(reference, envelope)
  local id = id_in(envelope)
  return { reference = reference, chain = id and chain_of(id), stays = id and carries_a_run(id),
    told = id and removal(w, id, says) }
end

-- Whether one entry's id is behind another's.
local function is_later(one, other)
  local function parts(id)
    local ms, n = string.match(id, '^(%d+)%-?(%d*)$')
    return tonumber(ms) or 0, tonumber(n) or 0
  end
  local ms, n = parts(one)
  local other_ms, other_n = parts(other)
  return ms > other_ms or ms == other_ms and n > other_n
end

-- Up to where the group has read; a paused one has read everything, and remembers.
local function position()
  local paused = redis.call('GET', q.target .. ':paused')
  if paused or redis.call('EXISTS', q.target) == 0 then return paused or '0-0' end
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', q.target)) do
    local found = {}
    for i = 1, #info, 2 do found[info[i]] = info[i + 1] end
    if found['name'] == q.group then return found['last-delivered-id'] end
  end
  return '0-0'
end

local function remove(job)
  if job.chain and redis.call('HEXISTS', q.dropped, job.chain) == 1 then
    if redis.call('HINCRBY', q.dropped, job.chain, -1) <= 0 then redis.call('HDEL', q.dropped, job.chain) end
    return
  end
  if job.chain and redis.call('HDEL', w.h.jobs, job.chain) == 1 then close(w.h, job.chain, '', 0) end
  if job.told then deliver(w, job.told) end
  count = count + 1
end

for i, envelope in ipairs(redis.call('ZRANGE', q.scheduled, skip, skip + limit - 1)) do
  scheduled[i] = seen(envelope, envelope)
end
if q.kind == 's' then
  local read = position()
  if is_later(read, from) then from = read end
  for i, entry in ipairs(redis.call('XRANGE', q.target, '(' .. from, '+', 'COUNT', limit)) do
    ready[i] = seen(entry[1], field(entry, 'data') or entry[2][2] or '')
  end
else
  for i, envelope in ipairs(redis.call('LRANGE', q.target, -limit, -1)) do ready[i] = seen(nil, envelope) end
end
for _, job in ipairs(scheduled) do
  if job.stays then kept = kept + 1 else
    redis.call('ZREM', q.scheduled, job.reference)
    remove(job)
  end
end
for _, job in ipairs(ready) do
  from = job.reference or from
  if q.kind == 'l' then
    redis.call('RPOP', q.target)
    remove(job)
  elseif not job.stays then
    redis.call('XDEL', q.target, job.reference)
    remove(job)
  end
end
finish(w)
return with_owed({ count, #scheduled + #ready, kept, from }, w.h)
