"""Runs one llama.cpp server until its standard input ends: the child process of `llama_servers.py`.

Arguments: the weights, the name to serve them under, the tokens that all slots share, how many slots there
are, a key, if one is to be asked for, and `embeddings`, if it is to give those. The address goes to standard
output; what llama.cpp has to say goes to standard error.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any


def main(weights: str, name: str, tokens: str, slots: str, key: str = "", gives: str = "") -> None:
    address = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # llama.cpp writes its log to both
    xllamacpp: Any = import_module("xllamacpp")  # native: it has no types
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {name}
    params.n_ctx = int(tokens)
    params.n_parallel = int(slots)
    # One thread: several would wait for one another, turning round, on a machine that is busy with tests.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.fit_params = False
    params.cache_ram_mib = 0
    params.endpoint_slots = True
    params.port = 0
    if key:
        params.api_keys = [key]
    if gives == "embeddings":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    address.write(server.listening_address + "\n")
    address.close()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
