// AdamW (arXiv:1711.05101) over many shards in one launch. The shards are arguments of the kernel, so nothing is copied
// to the device. Step counts, the learning rate and the skip flag are on the device, so a step can be recorded as a
// graph.
#include "lanes.cuh"

/// Filled by the host (kernel_parts/adamw_gpu.h): at most 4 KB, the limit of a kernel's arguments. A Piece ends with
/// the number of its shard and the number of its first block.
template <class Piece, int size>
struct PiecesOf {
  Piece pieces[size];
  int count;
};
/// The factors of one shard at one step.
struct Factors {
  float keep, step_size, root;
};

__device__ inline bool skipped(const float* skip) { return skip != nullptr && *skip != 0.0f; }

template <class Step>
__device__ inline Factors factors_at(Step step, double rate, double decay, double beta1, double beta2) {
  return {static_cast<float>(1.0 - rate * decay), static_cast<float>(rate / (1.0 - pow(beta1, step))),
          static_cast<float>(1.0 / sqrt(1.0 - pow(beta2, step)))};
}

/// The last of at most 64 pieces that starts at this block or before.
template <class Piece, int size>
__device__ inline const Piece& piece_at(const PiecesOf<Piece, size>& all, int block) {
  int number = 0;
  for (int step = 32; step > 0; step /= 2)
    if (number + step < all.count && all.pieces[number + step].first_block <= block) number += step;
  return all.pieces[number];
}
