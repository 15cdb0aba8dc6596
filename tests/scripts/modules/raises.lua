local function deeper() local nothing; return nothing.field end
deeper()
