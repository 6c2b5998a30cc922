"""One turn after another. Knows contracts, and no back end."""
