-- A syntax error has its line.
-- expect-error: error_syntax.lua:4: ')' expected near '"y"'
local rush = require "optrush"
rush.rung("x" "y")
