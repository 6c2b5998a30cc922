"""Plain data: what is said, asked, answered, recorded and found."""
