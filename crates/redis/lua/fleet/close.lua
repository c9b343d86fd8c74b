-- Asks the holder of a session to end it; ends it if no client is connected.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with session
-- Returns 1 if it existed, else 0 with nothing written.
local session = load_session(args.session)
if not session or session.is_over then return 0 end
if session.is_connected then
  redis.call('HSET', session_key(session.id), 'closing', 1)
else
  end_session(session.id, session.member)
end
add_wake('session ' .. session.id)
return reply_with(1)
