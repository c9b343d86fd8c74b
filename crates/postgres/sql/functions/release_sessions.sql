-- Ends sessions, or removes tickets, of these holders. Returns in order whether there was one.
--
-- Locks the kinds: a session that counts the sessions and then waits is either seen here and woken,
-- or sees that they are gone.
CREATE OR REPLACE FUNCTION release_sessions(ids text[], holders text[], standing bigint, OUT ended boolean[],
    OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment bigint := lock_fleet(ARRAY(SELECT split_part(member, ':', 1) FROM sessions WHERE id = ANY (ids)
        UNION ALL SELECT kind FROM tickets WHERE session = ANY (ids)), false);
    places_ended bigint[];
    on_members text[];
    kinds text[];
BEGIN
    WITH said AS MATERIALIZED (
        SELECT min(place) AS place, id, holder
        FROM unnest(ids, holders) WITH ORDINALITY AS said (id, holder, place) GROUP BY id, holder
    ),
    gone AS (
        DELETE FROM sessions USING said
        WHERE sessions.id = ANY (ARRAY[said.id]) AND sessions.holder = said.holder AND sessions.until + 0 > moment
        RETURNING said.place, sessions.member
    ),
    given_up AS (
        DELETE FROM tickets USING said
        WHERE tickets.session = ANY (ARRAY[said.id]) AND tickets.holder = said.holder AND tickets.until + 0 > moment
        RETURNING said.place, tickets.kind
    )
    SELECT ARRAY(SELECT place FROM gone UNION ALL SELECT place FROM given_up), ARRAY(SELECT member FROM gone),
        ARRAY(SELECT kind FROM given_up) INTO places_ended, on_members, kinds;
    ended := ARRAY(SELECT place = ANY (places_ended) FROM generate_series(1, cardinality(ids)) AS place);
    woken := sessions_ended(on_members, moment, standing) || places(kinds, moment);
END $$;
