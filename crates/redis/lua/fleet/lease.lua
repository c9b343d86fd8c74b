-- Gives a member to a session, or a place in the line of those who wait for one.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: session, kind, holder, for how many ms it lasts, for how many it outlives its connection,
--       detail, how many may wait in the line (0: this one does not), for how many ms its place lasts, number of offers, offers,
--       then members that are refused
-- Returns 'given', member, endpoint, offer, until (ms); or 'waiting', how many are before it, how many members have beaten recently;
-- or 'refused', how many wait, how many members have beaten recently.
local sid, kind, holder, keep, detail = ARGV[6], ARGV[7], ARGV[8], ARGV[10], ARGV[11]
local ends = TIME + math.max(tonumber(ARGV[9]), tonumber(keep))
local most, line_ttl, offers, refused = tonumber(ARGV[12]), tonumber(ARGV[13]), {}, {}
for i = 15, 14 + tonumber(ARGV[14]) do offers[#offers + 1] = ARGV[i] end
for i = 15 + #offers, #ARGV do refused[ARGV[i]] = true end
-- The only members it may be given, if others are before it.
local left
-- How much is tidied up, or looked at, in one go: with more to do it goes on only as long as it has found nothing to give.
local BATCH, PAGE = 100, 16

local function given(m)
  extend(sid, m.id, ends)
  return finish({ 'given', m.id, m.endpoint, m.offer, whole(ends) })
end

-- Puts members in the index whose time of grace is over, and says how many.
local function end_graces()
  local over = redis.call('ZRANGEBYSCORE', GRACE, '-inf', whole(TIME), 'LIMIT', 0, BATCH)
  for _, id in ipairs(over) do
    redis.call('ZREM', GRACE, id)
    local m = load(id, STANDARD)
    if m and place_of(id) then place(m) end
  end
  return #over
end

-- Whether a member that the index has is to be given. One that is not where it should be is put there, and `moved` counts it:
-- then it is worth looking again. The second answer: whether the index still has it where it was.
local moved = 0
local function examine(pool, id, score)
  if refused[id] or left and not left[id] then return nil, true end
  local m = load(id, STANDARD)
  if not m then
    set_aside(id)
    redis.call('ZREM', pool.key, id)
    return nil, false
  end
  local sessions = active(id)
  if m.offer ~= pool.offer or m.limit ~= pool.limit or rating(m, sessions) ~= score or not is_worth_a_look(m, sessions) then
    if place(m) or is_worth_a_look(m, sessions) then moved = moved + 1 end
    if m.offer ~= pool.offer or m.limit ~= pool.limit then redis.call('ZREM', pool.key, id) end
    return nil, redis.call('ZSCORE', pool.key, id) == whole(score)
  end
  if not m.is_available or not m.is_fresh or not m.is_sure or is_ordered(id) then return nil, true end
  return m, true
end

-- The first of a pool between two scores that can be given, and its score.
local function first_in(pool, highest, lowest)
  local passed = 0
  repeat
    local page = redis.call('ZREVRANGEBYSCORE', pool.key, highest, lowest, 'WITHSCORES', 'LIMIT', passed, PAGE)
    for i = 1, #page, 2 do
      local m, stays = examine(pool, page[i], tonumber(page[i + 1]))
      if m then return m, tonumber(page[i + 1]) end
      if stays then passed = passed + 1 end
    end
  until #page < 2 * PAGE
end

-- How many members of the kind and the offers an index has that have beaten recently: `live` has the available ones.
local function count_workers(index)
  local workers = 0
  for _, offer in ipairs(offers) do workers = workers + redis.call('ZCOUNT', index(kind, offer), after_now, '+inf') end
  return workers
end

local function pools(workers)
  local all = {}
  for _, offer in ipairs(offers) do
    for _, limit in ipairs(redis.call('SMEMBERS', limits(kind, offer))) do
      local most_ever = count_in(limit)
      if most_ever then
        local margin = math.max(1, math.floor(most_ever / math.max(1, workers)))
        all[#all + 1] = { key = free(kind, offer, most_ever), offer = offer, limit = most_ever,
          bar = most_ever == 0 and math.huge or math.max(0, most_ever - margin) * WIDTH }
      end
    end
  end
  return all
end

-- The best of all pools, below or beyond the margin.
local function best(all, is_below)
  local found, highest
  for _, pool in ipairs(all) do
    local bar, m, score = pool.bar == math.huge and '+inf' or whole(pool.bar), nil, nil
    if is_below then
      m, score = first_in(pool, bar == '+inf' and bar or '(' .. bar, '-inf')
    elseif bar ~= '+inf' then
      m, score = first_in(pool, '+inf', bar)
    end
    if m and (not found or score > highest) then found, highest = m, score end
  end
  return found
end

local function choose()
  repeat
    local tidied = end_expired(BATCH) + end_graces()
    for _ = 1, 4 do
      moved = 0
      local all = pools(count_workers(live))
      local m = best(all, true) or best(all, false)
      if m then return m end
      if moved == 0 then break end
    end
  until tidied < BATCH
end

-- Whether all who are before it refuse a member.
local function is_left_over(id, line, ahead)
  for from = 0, ahead - 1, BATCH do
    local tickets = redis.call('ZRANGE', line.turns, from, math.min(from + BATCH, ahead) - 1)
    for i, other in ipairs(tickets) do tickets[i] = ticket(other) end
    for _, said in ipairs(redis.call('MGET', unpack(tickets))) do
      if not string.find(refusals(said), ' ' .. id .. ' ', 1, true) then return false end
    end
  end
  return true
end

-- Of what the first in line refuses, the best that all others before it refuse, too. Asked of the others only for a member that
-- could be given: most often the first refuses nothing, and then this is the end of it.
local function choose_behind(line, ahead)
  left = {}
  local first = redis.call('ZRANGE', line.turns, 0, 0)[1]
  for id in string.gmatch(refusals(ticket_of(first)), '%S+') do left[id] = not refused[id] or nil end
  while next(left) do
    local m = choose()
    if not m or is_left_over(m.id, line, ahead) then return m end
    left[m.id] = nil
  end
end

local s = session(sid)
-- Whoever gives a member back has had its turn already.
local had_turn = s and not s.is_over and refused[s.member]
if s then
  local m = not s.is_over and not refused[s.member] and load(s.member, STANDARD)
  if m then return given(m) end
  end_session(sid, s.member)
end

local line = line_of(kind, offers[1])
local absent = quit_absent(line)
local ahead = redis.call('ZRANK', line.turns, sid)
local is_in_line = ahead ~= false
if not is_in_line then ahead = had_turn and 0 or redis.call('ZCARD', line.turns) end
local m
if ahead == 0 then m = choose() else m = choose_behind(line, ahead) end
if m then
  -- First what a server that is out of memory refuses.
  local worn = lifetime(m.id) + 1
  redis.call('HSET', LIFETIME, m.id, whole(worn))
  -- The owner of a member that is spent can start the next one.
  if m.limit > 0 and worn >= m.limit then tell('member ' .. m.id) end
  if is_in_line then
    quit(line, sid)
    note(line)
  end
  if redis.call('EXISTS', line.turns) == 1 then tell('places ' .. kind) end
  redis.call('DEL', session_key(sid))
  redis.call('HSET', session_key(sid), 'member', m.id, 'holder', holder, 'connected', 0, 'keep', keep, 'started', whole(TIME),
    'detail', detail)
  local answer = given(m)
  publish(m.id)
  place(m)
  return answer
end

-- A member that drains is replaced by its owner, so a client can wait for it.
local workers = count_workers(live) + count_workers(leaving)
if absent > 0 and ahead > 0 then tell('places ' .. kind) end
local waiting = redis.call('ZCARD', line.turns)
if most == 0 or not is_in_line and not had_turn and waiting >= most then
  if is_in_line then
    quit(line, sid)
    note(line)
    waiting = waiting - 1
  end
  return finish({ 'refused', waiting, workers })
end
if not is_in_line then
  local step = had_turn and -1 or 1
  local edge = redis.call('ZRANGE', line.turns, had_turn and 0 or -1, had_turn and 0 or -1, 'WITHSCORES')[2] or '0'
  redis.call('ZADD', line.turns, whole(tonumber(edge) + step), sid)
end
redis.call('ZADD', line.asked, whole(TIME + line_ttl), sid)
local said = { kind, offers[1], holder }
for id in pairs(refused) do said[#said + 1] = id end
redis.call('SET', ticket(sid), table.concat(said, ' '), 'PX', whole(line_ttl + KEPT))
note(line)
return finish({ 'waiting', ahead, workers })
