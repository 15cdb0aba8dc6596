-- The most common first mistake.
-- expect-error: error_no_require.lua:5: attempt to index a nil value (global 'rush')
-- expect-error:   error_no_require.lua:5: in main chunk
-- expect-error:   hint: start with: local rush = require "optrush"
rush.rung("x")
