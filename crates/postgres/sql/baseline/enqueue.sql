-- Inserts rows, as cheaply as the server can.
--
-- $1 envelopes
INSERT INTO tidemill.floor (data) SELECT unnest($1::bytea[])
