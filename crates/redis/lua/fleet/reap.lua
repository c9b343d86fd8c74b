-- Removes stale workers, expired sessions and waiting clients that stopped asking, and adds workers
-- that other programs have written, if asked to; a bounded number of each. Known workers keep the
-- defaults from when they were added, whatever this caller's defaults are.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with limit, foreign_cursor (over the entries of other programs),
--       known_cursor (over known workers), and adds (whether to add workers)
-- Returns the number of sessions, the number of clients, both cursors, removed workers, found
-- workers, and invalid entries: name and reason.
local limit, dead, found, unusable, sessions, places = args.limit, {}, {}, {}, 0, 0

-- A scan may return an entry twice.
local removed = {}
local function remove_dead(id)
  if removed[id] then return end
  removed[id] = true
  sessions = sessions + remove_worker(id)
  dead[#dead + 1] = id
end

-- Adds a worker that another program has written, or updates one that does not announce its
-- changes.
local function add_or_update(id)
  local worker, why = load_worker(id)
  local is_known = worker ~= false and index_entry(id)
  if worker == nil then return remove_dead(id) end
  if not worker then
    unusable[#unusable + 1] = { id, why }
    return
  end
  if is_known and worker.describes_itself or not is_known and not args.adds then return end
  if not worker.is_fresh then return remove_dead(id) end
  if not is_known then found[#found + 1] = id end
  if index_worker(worker) then add_wake('places ' .. worker.kind) end
end

sessions = end_expired(limit)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', STALE, '-inf', int_text(TIME), 'LIMIT', 0, limit)) do
  local worker = load_worker(id)
  if worker and worker.is_fresh then index_worker(worker) else remove_dead(id) end
end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', LINES, '-inf', int_text(TIME), 'LIMIT', 0, limit)) do
  local kind, offer = string.match(name, '^(%S+) (%S+)$')
  if kind then
    local wait_queue = open_wait_queue(kind, offer)
    places = places + drop_absent(wait_queue)
    update_wait_queue(wait_queue)
    if redis.call('EXISTS', wait_queue.turns) == 1 then add_wake('places ' .. kind) end
  else
    redis.call('ZREM', LINES, name)
  end
end
local foreign_page = redis.call('HSCAN', LIFETIME, args.foreign_cursor, 'COUNT', limit)
for i = 1, #foreign_page[2], 2 do add_or_update(foreign_page[2][i]) end
-- A leaving worker of another program deletes its own entries, and none of ours.
local known_page = redis.call('HSCAN', PLACES, args.known_cursor, 'COUNT', limit)
for i = 1, #known_page[2], 2 do
  local id = known_page[2][i]
  if redis.call('EXISTS', WORKER .. id) == 0 then remove_dead(id) end
end
return reply_with({ sessions, places, foreign_page[1], known_page[1], dead, found, unusable })
