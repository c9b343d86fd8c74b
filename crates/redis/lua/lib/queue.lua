-- Shared by every script about jobs; loaded after `base.lua`. All state is kept by chain; a job
-- that never continued is a chain of one.
-- Index values (hash `jobs`, field = chain id):
--   's QUEUE ENTRY'   in the stream, ready or pending   'l QUEUE'         in the list, or taken
--   'S QUEUE MEMBER'  scheduled for the stream          'L QUEUE MEMBER'  scheduled for the list
--   'd QUEUE ENTRY'   in the stream's dead letters      'D QUEUE ENTRY'   in the list's dead letters
--   'b QUEUE JOB MARK'  blocked; the mark identifies this wait, so that it is never confused with another

-- Returns the chain of a job: 'order-7~2' is step 2 of 'order-7'.
local function chain_of(id)
  local chain, step = string.match(id, '^(.+)~([1-9]%d*)$')
  if chain and #step <= 10 and tonumber(step) <= 4294967295 then return chain end
  return id
end

-- Returns the job id in an envelope, and whether its job has an index entry; nil if it is no
-- envelope. cjson rejects lone surrogates and deep nesting, which are valid JSON. Envelopes of
-- Tidemill begin with the id, and say after their last object that the job is untracked.
local function id_in(envelope)
  local sound, read = pcall(cjson.decode, envelope)
  if not sound and (string.find(read, 'unicode escape', 1, true) or string.find(read, 'nested', 1, true)) then
    local id = string.match(envelope, '^{"job_id":"([^"\\]+)"')
    return id, not string.find(string.match(envelope, '}([^{}]*)}$') or '', '"tracked":false', 1, true)
  end
  if sound and type(read) == 'table' and type(read.job_id) == 'string' then
    return read.job_id, read.tracked ~= false
  end
end

-- Returns when a job is due: '' now, '+N' in N ms, 'N' at N ms.
local function due_at(due, time)
  if due == '' then return 0 end
  if string.sub(due, 1, 1) == '+' then return time + tonumber(string.sub(due, 2)) end
  return tonumber(due)
end

-- Distinguishes copies that are to be dropped (see `dropped.lua`) from the one about to be added.
-- Deletes no key: a user that may only enqueue has no permission for that.
local function replace_dropped(queue, chain, envelope)
  local dropped = queue.target .. ':dropped'
  if queue.has_dropped == nil then
    -- A key of another type drops nothing.
    local length = redis.pcall('HLEN', dropped)
    queue.has_dropped = type(length) == 'number' and length > 0
  end
  local value = queue.has_dropped and redis.call('HGET', dropped, chain)
  if not value then return end
  -- Identical copies cannot be told apart, so they are removed. This is rare, and may cost a walk.
  local count = tonumber(string.match(value, '^%d+')) or 1
  for _, list in ipairs({ queue.target, queue.target .. ':purged:ready' }) do
    local removed = redis.pcall('LREM', list, 0, envelope)
    if type(removed) == 'number' then count = math.max(count - removed, 0) end
  end
  redis.call('HSET', dropped, chain, int_text(count) .. ' ' .. redis.sha1hex(envelope))
end

-- Adds a job: at once to `target`, or to `scheduled` until `at`. `queue` has kind ('s' or 'l'),
-- name, target, scheduled, jobs. Sets `queue.sooner` if it is now the earliest scheduled job.
local function put_job(queue, chain, tracked, envelope, at, time)
  if at > time then
    local first = redis.call('ZRANGE', queue.scheduled, 0, 0, 'WITHSCORES')
    redis.call('ZADD', queue.scheduled, int_text(at), envelope)
    if tracked then
      redis.call('HSET', queue.jobs, chain, string.upper(queue.kind) .. ' ' .. queue.name .. ' ' .. envelope)
    end
    if first[2] == nil or at < tonumber(first[2]) then queue.sooner = true end
  elseif queue.kind == 's' then
    local entry = redis.call('XADD', queue.target, '*', 'data', envelope)
    if tracked then redis.call('HSET', queue.jobs, chain, 's ' .. queue.name .. ' ' .. entry) end
  else
    if tracked then replace_dropped(queue, chain, envelope) end
    redis.call('LPUSH', queue.target, envelope)
    if tracked then redis.call('HSET', queue.jobs, chain, 'l ' .. queue.name) end
  end
end

-- Publishes that a queue's next scheduled job is due earlier than before, if it is.
local function announce_earlier(queue, channel)
  if not queue.sooner then return end
  local delivery = queue.kind == 's' and 'at_least_once' or 'at_most_once'
  notify(channel, 'sooner ' .. delivery .. ' ' .. queue.name)
end

local function expect_queue(queue)
  expect_type(queue.target, queue.kind == 's' and 'stream' or 'list')
  expect_type(queue.scheduled, 'zset')
  if queue.jobs then expect_type(queue.jobs, 'hash') end
  if queue.dlq then expect_type(queue.dlq, 'stream') end
  if queue.blocked then expect_type(queue.blocked, 'zset') end
end

-- Reads items in small steps, until none are left or a number or a total size is reached: a script
-- blocks the server. `fetch` receives how many were read and how many to read next; `consume`
-- receives each item and returns its size. The first step is one item; later ones are as many as
-- fit if all are as large as the largest so far. Returns how many bytes are left.
local function read_bounded(limit, bytes, fetch, consume)
  local seen, largest, step = 0, 64, 1
  while seen < limit and bytes > 0 do
    local found = fetch(seen, step)
    for _, item in ipairs(found) do
      local size = consume(item)
      bytes, largest = bytes - size, math.max(largest, size)
    end
    seen = seen + #found
    if #found < step then break end
    step = math.max(1, math.min(limit - seen, 64, math.floor(bytes / largest)))
  end
  return bytes
end
