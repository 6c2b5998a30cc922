"""The small process that starts commands, so that the program itself never forks.

It is a Python of its own, `python -I -S`, that imports the standard library and this folder alone: it is
small, has one thread and none of the program's memory, environment or files. For each command it forks a
supervisor (see `supervise.py`), which confines the command, watches it and ends all that it started.

Why not `subprocess` with a `preexec_fn`: code between fork and exec may hang in a program that has threads,
and copying the page tables of a large one takes longer than the command.
"""
