-- Error objects are shown by their tostring.
-- expect-error: an object says why
-- expect-error:   error_thrown_table.lua:4: in main chunk
error(setmetatable({}, { __tostring = function() return "an object says why" end }))
