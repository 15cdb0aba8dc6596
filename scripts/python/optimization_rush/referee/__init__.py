"""optrush referee: a champion, and challengers that are kept only if they are faster, correct and confirmed.

Each command reads the log (log.py) into a session (session.py), asks a pure function for the next step (decide.py),
does it (measure.py) and adds its event to the log. docs/guides/referee.md is the guide, docs/internals/referee.md has
the bound of the error.
"""
