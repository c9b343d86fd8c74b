-- Asks whoever holds a session to end it; ends it if nobody is connected to it.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: session
-- Returns 1 if it was there, else 0 with nothing written.
local s = session(ARGV[6])
if not s or s.is_over then return 0 end
if s.is_connected then
  redis.call('HSET', session_key(s.id), 'closing', 1)
else
  end_session(s.id, s.member)
end
tell('session ' .. s.id)
return finish(1)
