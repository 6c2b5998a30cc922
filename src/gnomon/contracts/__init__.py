"""The promises, one file each, and nothing else."""
