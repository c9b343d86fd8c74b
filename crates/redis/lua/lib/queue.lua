-- Shared by every script about jobs, behind `basics.lua`. Everything is kept by chain; a job that never continued is a chain of one.
-- Index values (hash `jobs`, field = chain id):
--   's QUEUE ENTRY'   in the stream, waiting or pending       'l QUEUE'         in the list, or taken from it
--   'S QUEUE MEMBER'  scheduled for the stream                'L QUEUE MEMBER'  scheduled for the list
--   'd QUEUE ENTRY'   in the stream's dead letters            'D QUEUE ENTRY'   in the list's dead letters
--   'b QUEUE JOB MARK'  blocked; the mark is the name of this one wait, so that nothing is taken for an older one

-- The chain of a job: 'order-7~2' is step 2 of 'order-7'.
local function chain_of(id)
  local chain, step = string.match(id, '^(.+)~([1-9]%d*)$')
  if chain and #step <= 10 and tonumber(step) <= 4294967295 then return chain end
  return id
end

-- The job id in an envelope, and whether its job has an index entry; nil if it is no envelope. Half a character and a great
-- depth are beyond this reader, but are JSON, and what Tidemill writes begins with the id and says behind its last object that
-- there is no entry.
local function id_in(envelope)
  local sound, read = pcall(cjson.decode, envelope)
  if not sound and (string.find(read, 'unicode escape', 1, true) or string.find(read, 'nested', 1, true)) then
    local id = string.match(envelope, '^{"job_id":"([^"\\]+)"')
    return id, not string.find(string.match(envelope, '}([^{}]*)}$') or '', '"tracked":false', 1, true)
  end
  if sound and type(read) == 'table' and type(read.job_id) == 'string' then return read.job_id, read.tracked ~= false end
end

-- When a job is due: '' now, '+N' in N ms, 'N' at N ms.
local function due_at(due, time)
  if due == '' then return 0 end
  if string.sub(due, 1, 1) == '+' then return time + tonumber(string.sub(due, 2)) end
  return tonumber(due)
end

-- Tells copies that are to be dropped (see `dropped.lua`) from the one that is about to be added. Nothing is deleted here: who
-- may only enqueue may not.
local function replace_dropped(q, chain, envelope)
  local dropped = q.target .. ':dropped'
  if q.has_dropped == nil then
    -- A key that holds something else drops nothing.
    local length = redis.pcall('HLEN', dropped)
    q.has_dropped = type(length) == 'number' and length > 0
  end
  local value = q.has_dropped and redis.call('HGET', dropped, chain)
  if not value then return end
  -- Those that look the same could not be told from it. This is rare, and may cost a walk.
  local count = tonumber(string.match(value, '^%d+')) or 1
  for _, list in ipairs({ q.target, q.target .. ':purged:ready' }) do
    local removed = redis.pcall('LREM', list, 0, envelope)
    if type(removed) == 'number' then count = math.max(count - removed, 0) end
  end
  redis.call('HSET', dropped, chain, whole(count) .. ' ' .. redis.sha1hex(envelope))
end

-- Makes a job wait: at once in `target`, or from `at` on in `scheduled`. `q` has kind ('s' or 'l'), name,
-- target, scheduled, jobs. Notes in `q.sooner` if it is now the earliest of the scheduled ones.
local function put(q, chain, tracked, envelope, at, time)
  if at > time then
    local first = redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')
    redis.call('ZADD', q.scheduled, whole(at), envelope)
    if tracked then redis.call('HSET', q.jobs, chain, string.upper(q.kind) .. ' ' .. q.name .. ' ' .. envelope) end
    if first[2] == nil or at < tonumber(first[2]) then q.sooner = true end
  elseif q.kind == 's' then
    local entry = redis.call('XADD', q.target, '*', 'data', envelope)
    if tracked then redis.call('HSET', q.jobs, chain, 's ' .. q.name .. ' ' .. entry) end
  else
    if tracked then replace_dropped(q, chain, envelope) end
    redis.call('LPUSH', q.target, envelope)
    if tracked then redis.call('HSET', q.jobs, chain, 'l ' .. q.name) end
  end
end

-- Says that a queue's next scheduled job is due earlier than before, if it is.
local function announce(q, channel)
  if not q.sooner then return end
  local delivery = q.kind == 's' and 'at_least_once' or 'at_most_once'
  notify(channel, 'sooner ' .. delivery .. ' ' .. q.name)
end

local function expect_queue(q)
  expect(q.target, q.kind == 's' and 'stream' or 'list')
  expect(q.scheduled, 'zset')
  if q.jobs then expect(q.jobs, 'hash') end
  if q.dlq then expect(q.dlq, 'stream') end
  if q.blocked then expect(q.blocked, 'zset') end
end

-- Reads items a few at a time, until there are no more of them or they come to a number or to so many bytes: what one script
-- reads keeps the server from everything else. `fetch` is given how many were read and how many to read next; `take` is
-- given each item and returns its size. The first step is one item, and later ones are as many as fit if all are as large as
-- the largest so far. Returns how many bytes are left.
local function collect(limit, bytes, fetch, take)
  local seen, largest, step = 0, 64, 1
  while seen < limit and bytes > 0 do
    local found = fetch(seen, step)
    for _, item in ipairs(found) do
      local size = take(item)
      bytes, largest = bytes - size, math.max(largest, size)
    end
    seen = seen + #found
    if #found < step then break end
    step = math.max(1, math.min(limit - seen, 64, math.floor(bytes / largest)))
  end
  return bytes
end
