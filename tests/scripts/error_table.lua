-- A table without __tostring has no text, and its address would differ from run to run.
-- expect-error: the error object is a table value
-- expect-error:   error_table.lua:5: in main chunk
-- expect-error:   hint: give error() a text
error({ code = 1 })
