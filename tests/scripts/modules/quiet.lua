loaded_quietly = (loaded_quietly or 0) + 1
