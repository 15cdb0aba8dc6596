// In its place: support/cuda_on_threads.h.
