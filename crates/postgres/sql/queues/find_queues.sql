-- The numbers of those queues that exist.
--
-- $1 names   $2 deliveries
SELECT name, delivery, number FROM queues
WHERE (name, delivery) IN (SELECT * FROM unnest($1::text[], $2::smallint[]))
