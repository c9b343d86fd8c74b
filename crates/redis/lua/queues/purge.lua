-- Deletes jobs of a purge that has begun, a bounded number and so many bytes, or one however large: those set apart, then
-- the ready ones of a stream up to an entry. Entries up to the group's position are pending and stay, and so does what runs
-- go on by. Runs that wait for what is deleted are told.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: kind ('s' or 'l'), queue, limit, bytes, the entry to begin behind ('0-0': at the
--       group's position), the last entry to delete, the errand, and what a run is told of an activity that was taken away:
--       what stands before and after the number
-- Returns how many were deleted, how many were looked at, and the entry to go on behind; then the errands that are owed.
local w = world(home(), 2)
local q, limit, bytes = queue(w, w.read(), w.read()), tonumber(w.read()), tonumber(w.read())
local from, last, errand, says = w.read(), w.read(), w.read(), { w.read(), w.read() }
local purged, list = q.target .. ':purged', q.target .. ':purged:ready'
local set_apart, popped, ready, count = {}, {}, {}, 0
expect_home(w.h)
expect(q.scheduled, 'zset')
expect(q.dropped, 'hash')
expect(purged, 'zset')
expect(list, 'list')

-- Gives what collects jobs in a list, each with what a run is told of it: that is found out before anything is written.
local function into(jobs, read)
  return function(item)
    local reference, envelope = read(item)
    local id = id_in(envelope)
    jobs[#jobs + 1] = { reference = reference, copy = not reference and envelope, chain = id and chain_of(id), stays = id and carries_a_run(id),
      told = id and removal(w, id, says) }
    return #envelope
  end
end

local function remove(job)
  if job.chain and job.copy and is_dropped(q.dropped, job.chain, job.copy) then return end
  if job.chain and redis.call('HDEL', w.h.jobs, job.chain) == 1 then
    close(w.h, job.chain, '', 0)
    w.h.ended[#w.h.ended + 1] = 'finished ' .. job.chain
  end
  if job.told then deliver(w, job.told) end
  count = count + 1
end

bytes = collect(limit, bytes, function(seen, step)
  return redis.call('ZRANGE', purged, seen, seen + step - 1)
end, into(set_apart, function(envelope) return envelope, envelope end))
bytes = collect(limit - #set_apart, bytes, function(seen, step)
  local found = redis.call('LRANGE', list, -seen - step, -seen - 1)
  for i = 1, math.floor(#found / 2) do found[i], found[#found + 1 - i] = found[#found + 1 - i], found[i] end
  return found
end, into(popped, function(envelope) return nil, envelope end))
if q.kind == 's' then
  local read, next = reading(q.target, q.target .. ':paused', q.group).at, nil
  if is_later(read, from) then from = read end
  next = from
  collect(limit - #set_apart, bytes, function(_, step)
    local found = redis.call('XRANGE', q.target, '(' .. next, last, 'COUNT', step)
    if #found > 0 then next = found[#found][1] end
    return found
  end, into(ready, function(entry) return entry[1], field(entry, 'data') or entry[2][2] or '' end))
end

-- Others take an errand over that nobody has carried on for a while.
redis.call('ZADD', w.h.errands, 'XX', whole(w.time + GRACE), errand)
for _, job in ipairs(set_apart) do
  if job.stays then redis.call('ZADD', q.scheduled, redis.call('ZSCORE', purged, job.reference), job.reference) end
  redis.call('ZREM', purged, job.reference)
  if not job.stays then remove(job) end
end
for _, job in ipairs(popped) do
  redis.call('RPOP', list)
  remove(job)
end
for _, job in ipairs(ready) do
  from = job.reference
  if not job.stays then
    redis.call('XDEL', q.target, job.reference)
    remove(job)
  end
end
finish(w)
publish_ends(w.h)
return with_owed({ count, #set_apart + #popped + #ready, from }, w.h)
