// For the files that define the functions of CUDA's libraries.
#pragma once
#include "ledger.h"
#include "streams.h"

#define FAKE_CUDA_API extern "C" __attribute__((visibility("default")))
/// Locks, and makes `s` of the parameter `stream`; returns if the stream does not exist.
#define FAKE_CUDA_STREAM(function)                     \
  const fake_cuda::Lock lock(fake_cuda::mutex());      \
  fake_cuda::Stream* s = fake_cuda::stream_of(stream); \
  if (!s) return fake_cuda::fault(cudaErrorInvalidResourceHandle, function, "no such stream")
