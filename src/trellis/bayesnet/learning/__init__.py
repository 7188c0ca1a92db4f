"""Tables from data: counting, and EM where states are missing."""
