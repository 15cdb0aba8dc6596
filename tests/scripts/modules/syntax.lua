local = 3
