-- Which steps the file has been through.
SELECT version FROM tidemill_schema
