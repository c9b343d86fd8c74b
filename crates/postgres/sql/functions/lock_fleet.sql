-- Locks kinds of workers until the end of the transaction, and returns the time at which they are
-- locked: a transaction that waited for the lock must not decide by a time before it what another
-- has decided since. Kinds are locked in the order of their keys.
--
-- State that all processes repeat at intervals need not survive a crash, so its commit, which
-- others wait for, does not wait for the disk. A `lasting` change does.
CREATE OR REPLACE FUNCTION lock_fleet(kinds text[], lasting boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    key bigint;
BEGIN
    IF NOT lasting THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    FOR key IN
        SELECT DISTINCT hashtextextended('tidemill fleet ' || current_schema() || ' ' || kind, 0)
        FROM unnest(kinds) AS kind ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(key);
    END LOOP;
    IF NOT EXISTS (SELECT FROM memory WHERE one) THEN
        INSERT INTO memory (one) VALUES (true) ON CONFLICT DO NOTHING;
    END IF;
    RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
END $$;
