-- Renews sessions for their holders: extends leases, and adds unknown sessions if there is
-- capacity.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with sessions: id, member (its worker), holder, ttl (ms), keep (for how
--       many ms it outlives its connection), connected (a client is), takes (it over), must_exist,
--       started (when it began, in ms, as text) and detail of each
-- Returns for each: 'held', 'closing' or 'lost'.
local function hold_session(attached)
  redis.call('HSET', session_key(attached.id), 'holder', attached.holder, 'connected',
    attached.connected and 1 or 0)
  extend_session(attached.id, attached.member, TIME + math.max(attached.ttl, attached.keep))
end

-- Adds a session that is unknown or expired. One that existed has been counted.
local function add_session(attached, was_counted)
  local worker = load_worker(attached.member)
  if worker and active_count(worker.id) >= worker.concurrent then return 'lost' end
  redis.call('DEL', session_key(attached.id))
  redis.call('HSET', session_key(attached.id), 'member', attached.member, 'keep', int_text(attached.keep),
    'started', attached.started, 'detail', attached.detail)
  hold_session(attached)
  if not worker then return 'held' end
  if not was_counted then redis.call('HSET', LIFETIME, worker.id, int_text(lifetime_count(worker.id) + 1)) end
  publish_count(worker.id)
  if index_entry(worker.id) then index_worker(worker) end
  return 'held'
end

local function attach(attached)
  local session = load_session(attached.id)
  if attached.must_exist and (not session or session.is_over) then return 'closing' end
  if not session then return add_session(attached, false) end
  if session.is_over then
    if session.member == attached.member then return add_session(attached, true) end
    end_session(session.id, session.member)
    return add_session(attached, false)
  end
  local is_held_by_other = session.is_connected and session.holder ~= attached.holder
  if session.member ~= attached.member or is_held_by_other and not attached.takes then return 'lost' end
  hold_session(attached)
  -- The previous holder has lost it.
  if is_held_by_other then add_wake('session ' .. session.id) end
  return session.is_closing and 'closing' or 'held'
end

local out = {}
for i, attached in ipairs(args.sessions) do out[i] = attach(attached) end
return reply_with(out)
