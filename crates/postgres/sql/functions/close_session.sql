-- Asks the holder of a session to end it. A session that no client is connected to ends at once.
-- Locks the kind of its worker.
CREATE OR REPLACE FUNCTION close_session(target text, standing bigint, OUT was_there boolean, OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY(SELECT split_part(member, ':', 1) FROM sessions WHERE id = target), true);
    held record;
BEGIN
    SELECT member, connected INTO held FROM sessions WHERE id = target AND until + 0 > moment;
    was_there := FOUND;
    IF NOT was_there THEN
        RETURN;
    END IF;
    -- Also for a session that ends here: a client may be about to connect to it.
    woken := ARRAY['session ' || target];
    IF held.connected THEN
        UPDATE sessions SET closing = true WHERE id = target;
    ELSE
        DELETE FROM sessions WHERE id = target;
        woken := woken || sessions_ended(ARRAY[held.member], moment, standing);
    END IF;
END $$;
