"""Runs llama.cpp's HTTP server until a signal: `python llamacpp.py MODEL PORT`."""

from __future__ import annotations

import signal
import sys

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.model_alias = {"tiny-random"}
parameters.port = int(sys.argv[2])
parameters.n_parallel = 4
parameters.n_ctx = 8192 * parameters.n_parallel
parameters.n_gpu_layers = 0
parameters.warmup = False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
signal.pause()
