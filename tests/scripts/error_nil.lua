-- error(nil) has no text of its own.
-- expect-error: nil
-- expect-error:   error_nil.lua:4: in main chunk
error(nil)
