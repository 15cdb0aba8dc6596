-- error(nil) has no text.
-- expect-error: the error object is a nil value
-- expect-error:   error_nil.lua:5: in main chunk
-- expect-error:   hint: give error() a text
error(nil)
