-- Leases a worker to a session, or adds the session to the queue of clients that wait for one.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with session, kind, holder, ttl (ms), keep (for how many ms it outlives
--       its connection), detail, max_waiting clients (0: this one does not wait), wait_ttl (for how
--       many ms it may wait without asking again), offers, and rejected workers
-- Returns 'given', worker, endpoint, offer, until (ms); or 'waiting', clients ahead, fresh workers;
-- or 'refused', waiting clients, fresh workers.
local session_id, kind, holder, offers, refused = args.session, args.kind, args.holder, args.offers, {}
local ends, most, line_ttl = TIME + math.max(args.ttl, args.keep), args.max_waiting, args.wait_ttl
for _, id in ipairs(args.rejected) do refused[id] = true end
-- The only workers it may get, if other clients are ahead of it.
local allowed
-- How many expired items and candidates are handled in one step. Further steps follow only while no
-- worker was found.
local BATCH, PAGE = 100, 16

local function lease_to(worker)
  extend_session(session_id, worker.id, ends)
  return reply_with({ 'given', worker.id, worker.endpoint, worker.offer, int_text(ends) })
end

-- Indexes workers whose grace period is over; returns how many.
local function end_graces()
  local over = redis.call('ZRANGEBYSCORE', GRACE, '-inf', int_text(TIME), 'LIMIT', 0, BATCH)
  for _, id in ipairs(over) do
    redis.call('ZREM', GRACE, id)
    local worker = load_worker(id, DEFAULTS)
    if worker and index_entry(id) then index_worker(worker) end
  end
  return #over
end

-- Returns an indexed worker if it can be leased. A worker at a wrong position in the index is
-- moved, and
-- `moved` counts it: then another search is useful. Second result: whether its position is
-- unchanged.
local moved = 0
local function examine(pool, id, score)
  if refused[id] or allowed and not allowed[id] then return nil, true end
  local worker = load_worker(id, DEFAULTS)
  if not worker then
    unindex_worker(id)
    redis.call('ZREM', pool.key, id)
    return nil, false
  end
  local sessions = active_count(id)
  if worker.offer ~= pool.offer or worker.limit ~= pool.limit or rating(worker, sessions) ~= score
    or not is_leasable(worker, sessions) then
    if index_worker(worker) or is_leasable(worker, sessions) then moved = moved + 1 end
    if worker.offer ~= pool.offer or worker.limit ~= pool.limit then redis.call('ZREM', pool.key, id) end
    return nil, redis.call('ZSCORE', pool.key, id) == int_text(score)
  end
  if not worker.is_available or not worker.is_fresh or not worker.is_sure or is_drain_ordered(id) then
    return nil, true
  end
  return worker, true
end

-- Returns the first worker of a pool between two scores that can be leased, and its score.
local function first_in(pool, highest, lowest)
  local passed = 0
  repeat
    local page = redis.call('ZREVRANGEBYSCORE', pool.key, highest, lowest, 'WITHSCORES', 'LIMIT', passed,
      PAGE)
    for i = 1, #page, 2 do
      local worker, stays = examine(pool, page[i], tonumber(page[i + 1]))
      if worker then return worker, tonumber(page[i + 1]) end
      if stays then passed = passed + 1 end
    end
  until #page < 2 * PAGE
end

-- Counts fresh workers of the kind and the offers in an index: `live_key` has the available ones.
local function count_workers(index_key)
  local workers = 0
  for _, offer in ipairs(offers) do
    workers = workers + redis.call('ZCOUNT', index_key(kind, offer), AFTER_NOW, '+inf')
  end
  return workers
end

local function pools(workers)
  local all = {}
  for _, offer in ipairs(offers) do
    for _, limit in ipairs(redis.call('SMEMBERS', limits_key(kind, offer))) do
      local most_ever = parse_count(limit)
      if most_ever then
        local margin = math.max(1, math.floor(most_ever / math.max(1, workers)))
        all[#all + 1] = { key = free_key(kind, offer, most_ever), offer = offer, limit = most_ever,
          bar = most_ever == 0 and math.huge or math.max(0, most_ever - margin) * RATING_WIDTH }
      end
    end
  end
  return all
end

-- Returns the best worker of all pools, below or beyond the margin.
local function best(all, is_below)
  local found, highest
  for _, pool in ipairs(all) do
    local bar, worker, score = pool.bar == math.huge and '+inf' or int_text(pool.bar), nil, nil
    if is_below then
      worker, score = first_in(pool, bar == '+inf' and bar or '(' .. bar, '-inf')
    elseif bar ~= '+inf' then
      worker, score = first_in(pool, '+inf', bar)
    end
    if worker and (not found or score > highest) then found, highest = worker, score end
  end
  return found
end

local function choose()
  repeat
    local expired = end_expired(BATCH) + end_graces()
    for _ = 1, 4 do
      moved = 0
      local all = pools(count_workers(live_key))
      local worker = best(all, true) or best(all, false)
      if worker then return worker end
      if moved == 0 then break end
    end
  until expired < BATCH
end

-- Whether all clients ahead reject a worker.
local function is_left_over(id, wait_queue, ahead)
  for from = 0, ahead - 1, BATCH do
    local tickets = redis.call('ZRANGE', wait_queue.turns, from, math.min(from + BATCH, ahead) - 1)
    for i, other in ipairs(tickets) do tickets[i] = ticket_key(other) end
    for _, ticket in ipairs(redis.call('MGET', unpack(tickets))) do
      if not string.find(refusals(ticket), ' ' .. id .. ' ', 1, true) then return false end
    end
  end
  return true
end

-- Returns the best worker that the first client and all others ahead reject. The others are read
-- only for a worker that could be leased: the first client usually rejects nothing, and the search
-- ends.
local function choose_behind(wait_queue, ahead)
  allowed = {}
  local first = redis.call('ZRANGE', wait_queue.turns, 0, 0)[1]
  for id in string.gmatch(refusals(read_ticket(first)), '%S+') do allowed[id] = not refused[id] or nil end
  while next(allowed) do
    local worker = choose()
    if not worker or is_left_over(worker.id, wait_queue, ahead) then return worker end
    allowed[worker.id] = nil
  end
end

local session = load_session(session_id)
-- A client that rejects its worker keeps its turn.
local keeps_turn = session and not session.is_over and refused[session.member]
if session then
  local worker = not session.is_over and not refused[session.member] and load_worker(session.member, DEFAULTS)
  if worker then return lease_to(worker) end
  end_session(session_id, session.member)
end

local wait_queue = open_wait_queue(kind, offers[1])
local absent = drop_absent(wait_queue)
local ahead = redis.call('ZRANK', wait_queue.turns, session_id)
local is_in_line = ahead ~= false
if not is_in_line then ahead = keeps_turn and 0 or redis.call('ZCARD', wait_queue.turns) end
local worker
if ahead == 0 then worker = choose() else worker = choose_behind(wait_queue, ahead) end
if worker then
  -- HSET first: a server without memory refuses it, and then nothing has changed.
  local sessions_had = lifetime_count(worker.id) + 1
  redis.call('HSET', LIFETIME, worker.id, int_text(sessions_had))
  -- The owner of a worker at its lifetime limit can start the next one.
  if worker.limit > 0 and sessions_had >= worker.limit then add_wake('member ' .. worker.id) end
  if is_in_line then
    leave_queue(wait_queue, session_id)
    update_wait_queue(wait_queue)
  end
  if redis.call('EXISTS', wait_queue.turns) == 1 then add_wake('places ' .. kind) end
  redis.call('DEL', session_key(session_id))
  redis.call('HSET', session_key(session_id), 'member', worker.id, 'holder', holder, 'connected', 0, 'keep',
    int_text(args.keep), 'started', int_text(TIME), 'detail', args.detail)
  local answer = lease_to(worker)
  publish_count(worker.id)
  index_worker(worker)
  return answer
end

-- The owner of a draining worker replaces it, so a client can wait for the next one.
local workers = count_workers(live_key) + count_workers(leaving_key)
if absent > 0 and ahead > 0 then add_wake('places ' .. kind) end
local waiting = redis.call('ZCARD', wait_queue.turns)
if most == 0 or not is_in_line and not keeps_turn and waiting >= most then
  if is_in_line then
    leave_queue(wait_queue, session_id)
    update_wait_queue(wait_queue)
    waiting = waiting - 1
  end
  return reply_with({ 'refused', waiting, workers })
end
if not is_in_line then
  local step = keeps_turn and -1 or 1
  local edge = redis.call('ZRANGE', wait_queue.turns, keeps_turn and 0 or -1, keeps_turn and 0 or -1,
    'WITHSCORES')[2] or '0'
  redis.call('ZADD', wait_queue.turns, int_text(tonumber(edge) + step), session_id)
end
redis.call('ZADD', wait_queue.asked, int_text(TIME + line_ttl), session_id)
local ticket = { kind, offers[1], holder }
for id in pairs(refused) do ticket[#ticket + 1] = id end
redis.call('SET', ticket_key(session_id), table.concat(ticket, ' '), 'PX', int_text(line_ttl + KEY_GRACE_MS))
update_wait_queue(wait_queue)
return reply_with({ 'waiting', ahead, workers })
