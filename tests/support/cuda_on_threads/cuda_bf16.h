// Replaced by support/cuda_on_threads.h.
