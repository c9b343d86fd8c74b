-- Drops the table of the baseline loop.
DROP TABLE IF EXISTS tidemill_floor
