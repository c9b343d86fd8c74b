-- Adds raw rows, as cheaply as the server can.
--
-- $1 envelopes
INSERT INTO floor (data) SELECT unnest($1::bytea[])
